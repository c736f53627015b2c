// A server's side and a worker's, over loopback, with a real model.
#include "cluster/scheduler/hosts.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cluster/fixture.h"
#include "cluster/made_up_host.h"
#include "cluster/wire/tcp_channel.h"
#include "cluster/worker/worker.h"
#include "engine/execute/absence.h"
#include "engine/execute/thread_executor.h"
#include "engine/fixture.h"
#include "engine/trial/loader.h"
#include "places/places.h"

namespace fermata::cluster {
namespace {

using testing::HasSubstr;

constexpr std::chrono::minutes kLimit{2};  // of what is waited for

engine::EngineOptions options_of_here() {
  engine::EngineOptions options;
  options.repository = data_folder() + "/repository";
  options.probe_program = options.workers.program = fermata_command();
  options.workers.types = {engine::WorkerType{.name = "far"}};
  options.workers.isolation = engine::Isolation::kThread;
  return options;
}

// A host's workers; they leave with it.
class OneWorker {
 public:
  OneWorker(uint16_t port, const std::string& name, uint32_t workers, TlsFiles tls = {}) {
    Worker::Options options{
        .schedulers = {fmt::format("127.0.0.1:{}", port)}, .name = name, .tls = std::move(tls)};
    options.engine = options_of_here();
    options.engine.workers.types.front().count = workers;
    worker_ = *Worker::make(std::move(options), [](uint32_t) {});
    thread_ = std::thread([this] { worker_->run(); });
  }
  ~OneWorker() {
    worker_->leave();
    thread_.join();
  }

 private:
  std::unique_ptr<Worker> worker_;
  std::thread thread_;
};

// A pool's slots, and the model that they have loaded.
class Slots {
 public:
  explicit Slots(uint32_t count, TlsFiles tls = {})
      : hosts_({.host = "127.0.0.1", .silence = Duration::seconds(20), .tls = std::move(tls)}) {
    const engine::WorkerType type = options_.workers.types.front();
    executors_.push_back(hosts_.executors(type, *engine::make_thread_executors(type)));
    variant_ = engine::Loader(options_, executors_).load("gather", {})->front();
    for (uint32_t i = 0; i < count; ++i) {
      slots_.push_back(executors_.front()->make());
      slots_.back()->tell_presence([this](const engine::Executor::Presence& presence) {
        const std::lock_guard lock(mutex_);
        there_ += presence.there ? 1 : -1;
        changed_.notify_all();
      });
      EXPECT_TRUE(slots_.back()->load(variant_).ok());
    }
    EXPECT_TRUE(hosts_.listen().ok());
  }
  void await(int there) {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, kLimit, [&] { return there_ == there; })) << there_;
  }
  engine::BatchResult run(std::vector<int64_t> rows, uint32_t slot = 0,
                          std::optional<VariantId> variant = {}) {
    const auto count = static_cast<int64_t>(rows.size());
    const std::vector<Tensor> inputs = {
        {"index", DataType::kInt64, {count, 1}, payload_of(std::move(rows))}};
    const std::vector<std::string> outputs;
    engine::BatchRun batch{.variant = variant.value_or(variant_->id)};
    batch.parts = {{&inputs, &outputs, 0, static_cast<uint32_t>(count)}};
    return engine::run_and_wait(*slots_[slot], std::move(batch));
  }
  // Two parts of an item each, in one batch.
  engine::BatchResult run_two() {
    const std::vector<std::string> outputs;
    const std::vector<Tensor> inputs = {
        {"index", DataType::kInt64, {1, 1}, payload_of(std::vector<int64_t>{1})}};
    engine::BatchRun batch{.variant = variant_->id};
    batch.parts = {{&inputs, &outputs, 0, 1}, {&inputs, &outputs, 0, 1}};
    return engine::run_and_wait(*slots_[0], std::move(batch));
  }
  engine::HostStatistics host() const { return hosts_.statistics().hosts.front(); }
  Hosts& hosts() { return hosts_; }
  engine::Executor& slot(uint32_t at = 0) { return *slots_[at]; }
  const std::shared_ptr<const engine::Variant>& variant() const { return variant_; }

 private:
  const engine::EngineOptions options_ = options_of_here();
  std::mutex mutex_;
  std::condition_variable changed_;
  int there_ = 0;
  Hosts hosts_;
  std::vector<std::unique_ptr<engine::ExecutorFactory>> executors_;
  std::shared_ptr<const engine::Variant> variant_;
  std::vector<std::shared_ptr<engine::Executor>> slots_;
};

TEST(Hosts, ASlotRunsBatchesOnAnotherHostWithinTheWayThere) {
  Slots slots(2);
  OneWorker worker(slots.hosts().port(), "one", 2);
  slots.await(2);
  const engine::BatchResult result = slots.run({1, 2}, 1);
  ASSERT_TRUE(result.parts[0].ok()) << result.parts[0].status();
  EXPECT_EQ(result.parts[0]->front().shape[0], 2);
  EXPECT_GT(result.link, Duration());
  EXPECT_GE(result.input, result.link);
  EXPECT_GT(result.run, Duration());
  EXPECT_GE(result.moved, 2 * 8u);
  EXPECT_EQ(slots.slot().host(), "one");
  EXPECT_GT(slots.slot().link()->control, Duration());
  EXPECT_EQ(slots.host().batches, 1u);
}

TEST(Hosts, WithoutAHostABatchIsGivenBackAtOnce) {
  Slots slots(1);
  const engine::BatchResult result = slots.run({1});
  EXPECT_EQ(engine::absence_of(result.parts[0].status()), engine::Absence::kCut);
  EXPECT_FALSE(slots.slot().link().has_value());
}

// Behind another batch: only what still has time is sent.
TEST(Hosts, WhatWaitedUntilItsDeadlineDoesNotRun) {
  Slots slots(1);
  MadeUpHost host(slots.hosts().port());
  slots.await(1);
  const std::vector<Tensor> inputs = {
      {"index", DataType::kInt64, {1, 1}, payload_of(std::vector<int64_t>{2})}};
  const std::vector<std::string> outputs;
  const auto run = [&](std::vector<Time> deadlines) {
    auto ended = std::make_shared<std::promise<engine::BatchResult>>();
    engine::BatchRun batch{.variant = slots.variant()->id};
    for (const Time deadline : deadlines) {
      batch.parts.push_back({&inputs, &outputs, 0, 1});
      batch.parts.back().deadline = deadline;
    }
    batch.done = [ended](engine::BatchResult result) { ended->set_value(std::move(result)); };
    slots.slot().run(std::move(batch));
    return ended->get_future();
  };
  const Signature& signature = slots.variant()->signature;
  const Time past = monotonic_now();
  auto first = run({past});  // its worker is free: who bound it thought that it has time
  const Batch begun = host.batch();
  auto mixed = run({past, Time::infinite(), past});
  auto late = run({past});
  auto last = run({Time::infinite()});
  host.answer(begun, signature);
  EXPECT_TRUE(first.get().parts[0].ok());
  const Batch some = host.batch();
  EXPECT_EQ(some.parts_size(), 1);
  host.answer(some, signature);
  const engine::BatchResult result = mixed.get();
  ASSERT_EQ(result.parts.size(), 3u);
  for (const size_t i : {0u, 2u}) {
    EXPECT_EQ(engine::absence_of(result.parts[i].status()), engine::Absence::kLate) << i;
  }
  EXPECT_TRUE(result.parts[1].ok());
  EXPECT_EQ(engine::absence_of(late.get().parts[0].status()), engine::Absence::kLate);
  host.answer(host.batch(), signature);
  EXPECT_TRUE(last.get().parts[0].ok());
}

TEST(Hosts, ABatchShowsTheWayWhereNoPartOfItWaitedInVain) {
  Slots slots(1);
  MadeUpHost host(slots.hosts().port());
  slots.await(1);
  // One part is answered, and the other one ends so.
  const auto run = [&](absl::Status other) {
    auto reply = std::async(std::launch::async, [&slots] { return slots.run_two(); });
    const Batch batch = host.batch();
    engine::BatchResult result{.moved = 1 << 20};
    result.parts = {std::vector{zeros(slots.variant()->signature.outputs[0], {1}, 1)}, other};
    const Outgoing out = write_ended(batch.number(), Duration(), result);
    host.say(out.message, out.payload);
    EXPECT_EQ(reply.get().parts[1].status().code(), other.code());
    return slots.host().nanos_per_byte;
  };
  EXPECT_EQ(run(absl::DataLossError("what a stage gave has gone")), 0);
  EXPECT_EQ(run(engine::absent(engine::Absence::kCut, absl::UnavailableError("cut"))), 0);
  EXPECT_EQ(run(engine::absent(engine::Absence::kAway, absl::UnavailableError("away"))), 0);
  EXPECT_GT(run(absl::InvalidArgumentError("nothing that the model takes")), 0);
}

TEST(Hosts, AHostThatLeavesIsGoneWithoutALossAndComesBack) {
  Slots slots(1);
  for (const uint64_t times : {1, 2}) {
    {
      OneWorker worker(slots.hosts().port(), "one", 1);
      slots.await(1);
      EXPECT_TRUE(slots.run({1}).parts[0].ok());
    }
    slots.await(0);
    EXPECT_EQ(slots.host().joined, times);
    EXPECT_EQ(slots.host().ends_by["left"], times);
    EXPECT_EQ(slots.host().lost, 0u);
  }
}

TEST(Hosts, AModelThatIsUnloadedAndLoadedAgainRuns) {
  Slots slots(1);
  OneWorker worker(slots.hosts().port(), "one", 1);
  slots.await(1);
  EXPECT_TRUE(slots.run({1}).parts[0].ok());
  slots.slot().unload(slots.variant()->id);
  EXPECT_TRUE(slots.slot().load(slots.variant()).ok());
  EXPECT_TRUE(slots.run({1}).parts[0].ok());
}

// As a reload does: the new one is there before the old one goes.
TEST(Hosts, AModelThatIsLoadedAnewRunsWhenTheOldOneHasGone) {
  Slots slots(1);
  OneWorker worker(slots.hosts().port(), "one", 1);
  slots.await(1);
  const auto anew = std::make_shared<engine::Variant>(*slots.variant());
  anew->id = VariantId(slots.variant()->id.value() + 1);
  EXPECT_TRUE(slots.slot().load(anew).ok());
  slots.slot().unload(slots.variant()->id);
  for (int i = 0; i < 2; ++i) {  // the first may come before the unload
    const engine::BatchResult result = slots.run({1}, 0, anew->id);
    EXPECT_TRUE(result.parts[0].ok()) << result.parts[0].status();
  }
}

// A part that says what it likes.
class Stranger {
 public:
  explicit Stranger(uint16_t port)
      : channel_(*Tcp::connect(fmt::format("127.0.0.1:{}", port), Duration::seconds(60))) {}
  absl::StatusOr<Frame> ask(const Message& message) {
    EXPECT_TRUE(channel_->send(message).ok());
    return channel_->receive();
  }
  Message hello(uint32_t version, const std::string& type, uint32_t slots = 1) {
    Message message;
    Hello& hello = *message.mutable_hello();
    hello.set_version(version);
    hello.set_host("stranger");
    hello.set_type(type);
    hello.set_slots(slots);
    return message;
  }

 private:
  std::shared_ptr<Channel> channel_;
};

TEST(Hosts, WhoDoesNotFitIsToldWhy) {
  Slots slots(1);
  const uint16_t port = slots.hosts().port();
  const auto why = [port](uint32_t version, const std::string& type, uint32_t count = 1) {
    Stranger stranger(port);
    return stranger.ask(stranger.hello(version, type, count))->message.refused().why();
  };
  const std::string ours = fmt::format("this scheduler version {}", kVersion);
  for (const uint32_t other : {kVersion - 1, kVersion + 1}) {
    const std::string theirs = fmt::format("it speaks version {} of the messages", other);
    EXPECT_THAT(why(other, "far"), testing::AllOf(HasSubstr(theirs), HasSubstr(ours)));
    Message frontend;
    frontend.mutable_frontend()->set_version(other);
    frontend.mutable_frontend()->set_name("stranger");
    EXPECT_THAT(Stranger(port).ask(frontend)->message.refused().why(),
                testing::AllOf(HasSubstr(theirs), HasSubstr(ours)));
  }
  EXPECT_THAT(why(kVersion, "near"), HasSubstr("no remote type 'near'"));
  EXPECT_THAT(why(kVersion, "far", 0), HasSubstr("there already"));
  Stranger first(port);
  ASSERT_TRUE(first.ask(first.hello(kVersion, "far"))->message.has_welcome());
  EXPECT_THAT(why(kVersion, "far"), HasSubstr("there already"));
}

TEST(Hosts, AConnectionOfNoSessionIsClosed) {
  Slots slots(1);
  Stranger stranger(slots.hosts().port());
  Message message;
  message.mutable_attach()->set_session(17);
  EXPECT_FALSE(stranger.ask(message).ok());
  EXPECT_EQ(slots.hosts().statistics().refused["session"], 1u);
}

// Two authorities, and a certificate and a key of each.
class Authorities {
 public:
  bool made() {
    for (const std::string name : {"ours", "theirs"}) {
      if (!run(fmt::format("req -x509 {} -subj /CN={} -keyout {}.key -out {}.pem", kNew, name, name,
                           name)) ||
          !run(fmt::format("req {} -subj /CN=part -keyout of_{}.key -out {}.csr", kNew, name,
                           name)) ||
          !run(fmt::format("x509 -req -in {}.csr -CA {}.pem -CAkey {}.key -CAcreateserial -days 9 "
                           "-out of_{}.pem",
                           name, name, name, name))) {
        return false;
      }
    }
    return true;
  }
  TlsFiles of(const std::string& name) const {
    const std::string folder = folder_.path().string();
    return {fmt::format("{}/of_{}.pem", folder, name), fmt::format("{}/of_{}.key", folder, name),
            folder + "/ours.pem"};
  }

 private:
  static constexpr char kNew[] = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
  bool run(const std::string& command) const {
    const std::string whole =
        fmt::format("cd {} && openssl {} 2> log", folder_.path().string(), command);
    return std::system(whole.c_str()) == 0;
  }
  engine::TemporaryFolder folder_;
};

TEST(Tls, OnlyWhoHasACertificateOfTheAuthorityTakesPart) {
  Authorities authorities;
  if (!authorities.made()) GTEST_SKIP() << "the command openssl is not there";
  Slots slots(1, authorities.of("ours"));
  const auto await_refused = [&slots](uint64_t times) {
    const auto end = std::chrono::steady_clock::now() + kLimit;
    while (slots.hosts().statistics().refused["tls"] < times) {
      ASSERT_LT(std::chrono::steady_clock::now(), end);
      std::this_thread::yield();
    }
  };
  {
    OneWorker theirs(slots.hosts().port(), "theirs", 1, authorities.of("theirs"));
    await_refused(1);
  }
  const uint64_t before = slots.hosts().statistics().refused["tls"];
  {
    OneWorker plain(slots.hosts().port(), "plain", 1);
    await_refused(before + 1);
  }
  EXPECT_TRUE(slots.hosts().statistics().hosts.empty());
  OneWorker ours(slots.hosts().port(), "ours", 1, authorities.of("ours"));
  slots.await(1);
  EXPECT_TRUE(slots.run({1, 2}).parts[0].ok());
}

TEST(Tls, FilesThatAreNoneAreNamed) {
  Hosts hosts({.host = "127.0.0.1", .tls = {"/none/a.pem", "/none/a.key", "/none/b.pem"}});
  EXPECT_THAT(std::string(hosts.listen().message()), HasSubstr("/none/a.pem"));
}

}  // namespace
}  // namespace fermata::cluster
