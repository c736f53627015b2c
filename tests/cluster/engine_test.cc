// An engine whose workers are of hosts that do what a test says.
#include "engine/engine.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cluster/fixture.h"
#include "cluster/hosts.h"
#include "cluster/tcp_channel.h"
#include "engine/fixture.h"

namespace fermata::cluster {
namespace {

constexpr std::chrono::minutes kPatience{2};  // of what is waited for

// A host that joins with one worker, loads what it is told, and hands its batches to the test.
class MadeUpHost {
 public:
  explicit MadeUpHost(uint16_t port) : address_(fmt::format("127.0.0.1:{}", port)) {
    control_ = connect();
    Message greeting;
    Hello& hello = *greeting.mutable_hello();
    hello.set_version(kVersion);
    hello.set_host("made-up");
    hello.set_type("far");
    hello.set_slots(1);
    EXPECT_TRUE(control_->send(greeting).ok());
    session_ = control_->receive()->message.welcome().session();
    slot_ = attach(false);
    loads_ = attach(true);
    threads_.emplace_back([this] { answer_loads(); });
    threads_.emplace_back([this] { answer_beats(); });
  }
  ~MadeUpHost() {
    for (const auto& channel : {control_, slot_, loads_}) channel->cut();
    for (std::thread& thread : threads_) thread.join();
  }
  Batch batch() { return slot_->receive()->message.batch(); }
  // Zeros, as its model would give them.
  void answer(const Batch& batch, const Signature& signature, Duration run = Duration()) {
    engine::BatchResult result;
    result.run = run;
    for (const Part& part : batch.parts()) {
      Shape item = signature.outputs[0].dims;
      std::replace(item.begin(), item.end(), int64_t{-1}, int64_t{1});
      result.parts.emplace_back(std::vector{zeros(signature.outputs[0], item, part.items())});
    }
    const Outgoing out = write_ended(batch.number(), Duration(), result);
    EXPECT_TRUE(slot_->send(out.message, out.payload).ok());
  }
  void die() {
    for (const auto& channel : {slot_, loads_, control_}) channel->cut();
  }
  void fall_silent() { silent_ = true; }
  void say(const Message& message) { EXPECT_TRUE(slot_->send(message).ok()); }

 private:
  std::shared_ptr<Channel> connect() { return *Tcp::connect(address_, Duration::seconds(60)); }
  std::shared_ptr<Channel> attach(bool loads) {
    auto channel = connect();
    Message message;
    message.mutable_attach()->set_session(session_);
    message.mutable_attach()->set_loads(loads);
    EXPECT_TRUE(channel->send(message).ok());
    return channel;
  }
  void answer_loads() {
    while (loads_->receive().ok()) {
      Message answer;
      answer.mutable_loaded();
      if (!loads_->send(answer).ok()) return;
    }
  }
  void answer_beats() {
    while (true) {
      const auto beat = control_->receive();
      if (!beat.ok()) return;
      if (silent_) continue;
      Message echo;
      echo.mutable_echo()->set_number(beat->message.beat().number());
      if (!control_->send(echo).ok()) return;
    }
  }

  const std::string address_;
  std::shared_ptr<Channel> control_, slot_, loads_;
  uint64_t session_ = 0;
  std::atomic<bool> silent_{false};
  std::vector<std::thread> threads_;
};

class ClusterEngine : public testing::Test {
 protected:
  void start(Duration silence) {
    folder_.copy_model("gather", "gather");
    hosts_ = std::make_shared<Hosts>(Options{.host = "127.0.0.1", .silence = silence});
    engine::EngineOptions options;
    options.repository = folder_.path();
    options.probe_program = FERMATA_BINARY_DIR "/fermata";
    options.workers.types = {engine::WorkerType{.name = "far", .count = 2, .remote = true}};
    options.workers.remote = hosts_;
    auto made = engine::make_engine(options);
    ASSERT_TRUE(made.ok()) << made.status();
    engine_ = *std::move(made);
    ASSERT_TRUE(hosts_->listen().ok());
  }
  void await_worker(size_t worker, bool serving) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (engine_->snapshot().workers[worker].serving != serving) {
      ASSERT_LT(std::chrono::steady_clock::now(), end);
      std::this_thread::yield();
    }
  }
  const Signature& signature() const {
    return engine_->catalog()->find("gather")->versions.front()->signature;
  }
  std::future<engine::ReplyPart> ask(std::optional<Duration> timeout = {}) {
    auto promise = std::make_shared<std::promise<engine::ReplyPart>>();
    engine::InferRequest request;
    request.service = "gather";
    request.arrival = engine_->now();
    request.timeout = timeout;
    request.inputs = {{"index", DataType::kInt64, {1, 1}, payload_of(std::vector<int64_t>{2})}};
    engine_->submit(std::move(request), [promise](engine::ReplyPart reply) {
      promise->set_value(std::move(reply));  // throws where it is called twice
    });
    return promise->get_future();
  }
  static void expect_answer(std::future<engine::ReplyPart> reply) {
    ASSERT_EQ(reply.wait_for(kPatience), std::future_status::ready);
    const engine::ReplyPart part = reply.get();
    EXPECT_TRUE(part.status.ok()) << part.status;
    EXPECT_EQ(part.outputs.size(), 1u);
  }

  engine::TemporaryFolder folder_;
  std::shared_ptr<Hosts> hosts_;
  std::unique_ptr<engine::Engine> engine_;
};

TEST_F(ClusterEngine, WhatAHostDiedOfRunsElsewhereAlone) {
  start(Duration::seconds(60));
  MadeUpHost first(hosts_->port());
  await_worker(0, true);
  EXPECT_EQ(engine_->snapshot().workers[0].host, "made-up");
  auto reply = ask();
  EXPECT_FALSE(first.batch().parts(0).alone());
  MadeUpHost second(hosts_->port());
  await_worker(1, true);
  first.die();
  const Batch again = second.batch();
  EXPECT_TRUE(again.parts(0).alone());
  second.answer(again, signature());
  expect_answer(std::move(reply));
  await_worker(0, false);
  EXPECT_EQ(engine_->snapshot().workers[0].health.renewals, 1u);
}

TEST_F(ClusterEngine, WhatTwoHostsDiedOfFails) {
  start(Duration::seconds(60));
  MadeUpHost first(hosts_->port());
  await_worker(0, true);
  auto reply = ask();
  (void)first.batch();
  first.die();
  await_worker(0, false);
  MadeUpHost second(hosts_->port());
  (void)second.batch();
  second.die();
  ASSERT_EQ(reply.wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(reply.get().status.code(), absl::StatusCode::kInternal);
}

// Which says nothing of what it ran.
TEST_F(ClusterEngine, WhatASilentHostHasRunsElsewhere) {
  start(Duration::seconds(2));
  MadeUpHost first(hosts_->port());
  await_worker(0, true);
  auto reply = ask();
  (void)first.batch();
  first.fall_silent();
  await_worker(0, false);
  MadeUpHost second(hosts_->port());
  const Batch again = second.batch();
  EXPECT_FALSE(again.parts(0).alone());
  second.answer(again, signature());
  expect_answer(std::move(reply));
}

// Though the host is not given up for a minute.
TEST_F(ClusterEngine, WhoWaitsForASilentHostIsToldAfterTheDeadline) {
  start(Duration::seconds(60));
  MadeUpHost host(hosts_->port());
  await_worker(0, true);
  auto reply = ask(Duration::seconds(2));
  (void)host.batch();
  host.fall_silent();
  ASSERT_EQ(reply.wait_for(kPatience), std::future_status::ready);
  const engine::ReplyPart part = reply.get();
  EXPECT_EQ(part.status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(part.status.message()), testing::HasSubstr("not heard of"));
  EXPECT_EQ(hosts_->statistics().hosts.front().ends_by.size(), 0u);
}

TEST_F(ClusterEngine, AHostThatAnswersNonsenseIsRefusedAndItsRequestFails) {
  start(Duration::seconds(60));
  MadeUpHost host(hosts_->port());
  await_worker(0, true);
  auto reply = ask();
  Message nonsense;
  nonsense.mutable_ended()->set_number(host.batch().number() + 1);
  host.say(nonsense);
  ASSERT_EQ(reply.wait_for(kPatience), std::future_status::ready);
  EXPECT_THAT(std::string(reply.get().status.message()), testing::HasSubstr("a wrong answer"));
  await_worker(0, false);
}

TEST_F(ClusterEngine, AHostThatSaysThatARunTookYearsIsNotBelieved) {
  start(Duration::seconds(60));
  MadeUpHost host(hosts_->port());
  await_worker(0, true);
  auto reply = ask();
  host.answer(host.batch(), signature(), Duration::nanos(int64_t{1} << 60));
  expect_answer(std::move(reply));
  EXPECT_LT(engine_->snapshot().workers[0].busy, Duration::seconds(3600));
}

TEST_F(ClusterEngine, WithoutAHostItIsNotReadyAndADeadlineIsRefused) {
  start(Duration::seconds(60));
  EXPECT_EQ(engine_->unserved().at(0).name, "workers");
  auto reply = ask(Duration::millis(50));
  ASSERT_EQ(reply.wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(reply.get().status.code(), absl::StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace fermata::cluster
