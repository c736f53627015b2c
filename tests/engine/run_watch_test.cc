// Models that never end, crash, or divide by zero.
#include "engine/execute/run_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <thread>

#include "engine/fixture.h"
#include "engine/trial/loader.h"
#include "engine/trial/trial.h"

namespace fermata::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Keeps what it is given to run, until told to let it go.
class Stuck : public Executor {
 public:
  absl::Status load(std::shared_ptr<const Variant>) override { return absl::OkStatus(); }
  void unload(VariantId) override {}
  void run(BatchRun batch) override { kept.push_back(std::move(batch)); }
  void terminate() override { told.set_value(); }

  std::vector<BatchRun> kept;
  std::promise<void> told;
};

// Answers at once, from a thread of its own.
class Quick : public Executor {
 public:
  ~Quick() override {
    for (std::thread& thread : threads_) thread.join();
  }
  absl::Status load(std::shared_ptr<const Variant>) override { return absl::OkStatus(); }
  void unload(VariantId) override {}
  void run(BatchRun batch) override {
    threads_.emplace_back([batch = std::move(batch)]() mutable {
      BatchResult result;
      for (size_t i = 0; i < batch.parts.size(); ++i)
        result.parts.emplace_back(std::vector<Tensor>());
      batch.done(std::move(result));
    });
  }

 private:
  std::vector<std::thread> threads_;
};

std::future<BatchResult> run_on(Executor& executor, VariantId variant,
                                Duration limit = Duration::seconds(600)) {
  auto promise = std::make_shared<std::promise<BatchResult>>();
  BatchRun run{.variant = variant, .parts = {BatchPart(), BatchPart()}, .limit = limit};
  run.done = [promise](BatchResult result) { promise->set_value(std::move(result)); };
  auto future = promise->get_future();
  executor.run(std::move(run));
  return future;
}

std::shared_ptr<const Variant> nameless(uint32_t id) {
  auto variant = std::make_shared<Variant>();
  variant->id = VariantId(id);
  variant->model = "m";
  return variant;
}

TEST(RunWatch, ARunThatDoesNotHeedItIsGivenUpAndTheWorkerIsReplaced) {
  RunWatch watch(Duration::millis(1), Duration::millis(1));
  Stuck* stuck = nullptr;
  const uint64_t abandoned = abandoned_runs();
  const auto executor = watch.over([&stuck]() -> std::shared_ptr<Executor> {
    if (stuck != nullptr) return std::make_unique<Quick>();
    auto first = std::make_unique<Stuck>();
    stuck = first.get();
    return first;
  });
  const auto first = nameless(1), second = nameless(2);
  for (const auto& variant : {first, second}) ASSERT_TRUE(executor->load(variant).ok());
  auto never = run_on(*executor, VariantId(1), Duration::millis(1));
  auto behind = run_on(*executor, VariantId(2));
  const BatchResult result = never.get();
  ASSERT_EQ(result.parts.size(), 2u);
  EXPECT_THAT(std::string(result.parts[1].status().message()), HasSubstr("was stopped after"));
  EXPECT_THAT(std::string(behind.get().parts[0].status().message()),
              HasSubstr("the worker was replaced"));
  EXPECT_EQ(executor->health().renewals, 1u);
  EXPECT_FALSE(executor->health().overdue);
  EXPECT_EQ(abandoned_runs(), abandoned + 1);
  // The next one has a new executor, of that model as well.
  for (uint32_t id : {1, 2}) {
    EXPECT_TRUE(run_on(*executor, VariantId(id)).get().parts[0].ok());
  }
  // Should it end after all, nobody hears of it, and what was left behind is freed.
  for (BatchRun& late : std::exchange(stuck->kept, {})) late.done(BatchResult());
  while (abandoned_runs() > abandoned) std::this_thread::yield();
}

// Each has a thread of its own, so there is a limit.
TEST(RunWatch, AModelOfWhichManyRunsGoOnFailsAtOnceUntilOneEnds) {
  RunWatch watch(Duration::millis(1), Duration::millis(1));
  std::vector<std::shared_ptr<Stuck>> stuck;
  const auto executor = watch.over([&stuck]() -> std::shared_ptr<Executor> {
    if (stuck.size() == RunWatch::kMostLeftBehind) return std::make_shared<Quick>();
    stuck.push_back(std::make_shared<Stuck>());
    return stuck.back();
  });
  const auto first = nameless(1);
  ASSERT_TRUE(executor->load(first).ok());
  for (size_t i = 0; i < RunWatch::kMostLeftBehind; ++i) {
    EXPECT_FALSE(is_given_up(*first));
    EXPECT_FALSE(run_on(*executor, VariantId(1), Duration::millis(1)).get().parts[0].ok());
  }
  EXPECT_EQ(run_on(*executor, VariantId(1)).get().parts[0].status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_TRUE(is_given_up(*first));
  stuck[0]->kept[0].done(BatchResult());
  EXPECT_TRUE(run_on(*executor, VariantId(1)).get().parts[0].ok());
  EXPECT_FALSE(is_given_up(*first));
  stuck[1]->kept[0].done(BatchResult());
}

TEST(RunWatch, WhatEndsWhenToldFailsAndTheWorkerStays) {
  RunWatch watch(Duration::millis(1), Duration::seconds(600));
  Stuck* stuck = nullptr;
  const auto executor = watch.over([&stuck] {
    auto made = std::make_unique<Stuck>();
    stuck = made.get();
    return made;
  });
  ASSERT_TRUE(executor->load(nameless(1)).ok());
  auto running = run_on(*executor, VariantId(1));
  EXPECT_FALSE(executor->health().overdue);
  executor->end_soon(Duration());
  stuck->told.get_future().wait();
  EXPECT_TRUE(executor->health().overdue);
  BatchResult result;
  result.parts.emplace_back(std::vector<Tensor>());
  result.parts.emplace_back(absl::InternalError("terminate flag"));
  stuck->kept[0].done(std::move(result));
  const BatchResult seen = running.get();
  EXPECT_TRUE(seen.parts[0].ok());
  EXPECT_THAT(std::string(seen.parts[1].status().message()), HasSubstr("was stopped after"));
  EXPECT_FALSE(executor->health().overdue);
  EXPECT_EQ(executor->health().renewals, 0u);
}

void copy_hostile(const TemporaryFolder& folder, const std::string& model) {
  std::filesystem::copy(data_folder() + "/hostile/" + model, folder.path() / model,
                        std::filesystem::copy_options::recursive);
}

TEST(RunWatch, AModelThatDoesNotEndIsStoppedAndTheOthersGoOn) {
  TemporaryFolder folder;
  copy_hostile(folder, "endless");
  EngineOptions options = options_for(folder.path());
  options.workers.run_limit = Duration::seconds(5);  // others end sooner, busy machine or not
  const auto engine = *make_engine(std::move(options));
  const auto ask = [&engine](float x) {
    return call(*engine, {.service = "endless", .inputs = {floats("x", {1, 1}, {x})}});
  };
  EXPECT_TRUE(ask(0).status.ok());
  const ReplyPart reply = ask(1);
  EXPECT_EQ(reply.why.outcome, Outcome::kFailed);
  EXPECT_THAT(std::string(reply.status.message()), HasSubstr("was stopped after"));
  EXPECT_TRUE(ask(0).status.ok());
  EXPECT_FALSE(engine->overdue());
  EXPECT_EQ(engine->snapshot().workers[0].health.renewals, 0u);
}

TEST(FirstRuns, AModelThatNeverEndsOrCrashesDoesSoInTheChild) {
  TemporaryFolder folder;
  copy_hostile(folder, "always-endless");
  TrialOptions options{.file = (folder.path() / "always-endless/1/model.onnx").string()};
  options.measure = true;
  const auto says = [&options](const std::string& program, Duration limit) {
    return std::string(try_model(program, options, {limit}).status().message());
  };
  EXPECT_THAT(says(fermata_command(), Duration::seconds(2)), HasSubstr("took longer than"));
  folder.write(
      "crash.sh",
      "#!/bin/sh\necho '{\"inputs\": [], \"outputs\": [], \"defaults\": []}'\nkill -FPE $$\n");
  std::filesystem::permissions(folder.path() / "crash.sh", std::filesystem::perms::owner_all);
  EXPECT_THAT(says((folder.path() / "crash.sh").string(), Duration::seconds(60)),
              HasSubstr("its first runs crashed (Floating point exception)"));
}

TEST(FirstRuns, AModelThatNeedsMoreMemoryThanItsTrialMayTakeIsNotServed) {
  if (!limits_memory()) GTEST_SKIP() << "sanitizers take all addresses";
  TemporaryFolder folder;
  copy_hostile(folder, "glutton");
  EngineOptions options = options_for(folder.path());
  const auto executors = *make_executors(options.workers);
  const auto load = [&] { return Loader(options, {&executors, 1}).load("glutton", {}).status(); };
  options.workers.trial_memory_mb = 512;
  EXPECT_THAT(std::string(load().message()),
              HasSubstr("needs more memory than the 512 MiB of workers.trial_memory_mb"));
  options.default_max_batch = 1;
  options.workers.trial_memory_mb = 2048;
  EXPECT_TRUE(load().ok()) << load();
}

// In a process of its own, which cannot give back what it denies itself.
TEST(FirstRuns, TheChildHasNoInternet) {
  const auto denied = [](int family) {
    return socket(family, SOCK_STREAM, 0) < 0 && errno == EPERM;
  };
  EXPECT_FALSE(denied(AF_INET));
  const auto limited = [&denied] {
    if (!limit_this_process({}).ok()) _exit(1);
    const bool rings = syscall(__NR_io_uring_setup, 1, nullptr) < 0 && errno == EPERM;
    const bool others = denied(AF_PACKET) && denied(AF_VSOCK);
    _exit(denied(AF_INET) && denied(AF_INET6) && rings && others && !denied(AF_UNIX) ? 7 : 1);
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(limited(), ::testing::ExitedWithCode(7), "");
}

TEST(Divide, WhatCannotBeDividedFailsAlone) {
  TemporaryFolder folder;
  folder.copy_model("divide", "divide");
  const auto engine = *make_engine(options_for(folder.path()));
  const auto ask = [&engine](int32_t a, int32_t b) {
    return call(*engine,
                {.service = "divide", .inputs = {ints("a", {1, 1}, {a}), ints("b", {1, 1}, {b})}});
  };
  EXPECT_THAT(values<int32_t>(ask(6, 3).outputs[0]), ElementsAre(2));
  for (const auto& [a, b] : {std::pair{INT_MIN, -1}, std::pair{7, 0}}) {
    const ReplyPart reply = ask(a, b);
    EXPECT_THAT(std::string(reply.status.message()), HasSubstr("by zero"));
    EXPECT_EQ(reply.why.outcome, Outcome::kInvalid);
  }
  EXPECT_THAT(values<int32_t>(ask(INT_MIN, 1).outputs[0]), ElementsAre(INT_MIN));
}

}  // namespace
}  // namespace fermata::engine
