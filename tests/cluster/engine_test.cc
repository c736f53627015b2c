// An engine whose workers are of hosts that do what a test says.
#include "engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cluster/fixture.h"
#include "cluster/made_up_host.h"
#include "cluster/scheduler/hosts.h"
#include "engine/fixture.h"
#include "places/places.h"

namespace fermata::cluster {
namespace {

constexpr std::chrono::minutes kPatience{2};  // of what is waited for

class ClusterEngine : public testing::Test {
 protected:
  void start(Duration silence) {
    folder_.copy_model("gather", "gather");
    hosts_ = std::make_shared<Hosts>(Options{.host = "127.0.0.1", .silence = silence});
    engine::EngineOptions options;
    options.repository = folder_.path();
    options.probe_program = fermata_command();
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

TEST_F(ClusterEngine, WhatThreeHostsDiedOfFails) {
  start(Duration::seconds(60));
  auto reply = ask();
  for (int i = 0; i < 3; ++i) {
    EXPECT_NE(reply.wait_for(std::chrono::seconds(0)), std::future_status::ready) << i;
    MadeUpHost host(hosts_->port());
    (void)host.batch();
    host.die();
    await_worker(0, false);
  }
  ASSERT_EQ(reply.wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(reply.get().status.code(), absl::StatusCode::kInternal);
}

// Which says nothing of what it ran.
TEST_F(ClusterEngine, WhatASilentHostHasRunsElsewhere) {
  start(Duration::seconds(6));
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
  auto reply = ask(Duration::seconds(6));
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
