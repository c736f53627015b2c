#include "engine/execute/resident_executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <future>
#include <limits>
#include <mutex>
#include <optional>

#include "engine/fixture.h"

namespace fermata::engine {
namespace {

using ::testing::ElementsAre;

// Writes down what it is told; refuses to load variant 9.
struct Scribe final : Executor {
  explicit Scribe(std::vector<std::string>& to) : lines(to) {}
  absl::Status load(std::shared_ptr<const Variant> variant) override {
    {
      std::unique_lock lock(mutex);
      lines.push_back("load " + variant->model);
      changed.wait(lock, [&] { return stuck != variant->id; });
    }
    return variant->id == VariantId(9) ? absl::InternalError("broken") : absl::OkStatus();
  }
  void unload(VariantId id) override { write("unload " + std::to_string(id.value())); }
  void run(BatchRun batch) override {
    write("run " + std::to_string(batch.variant.value()));
    BatchResult result;
    result.parts.assign(batch.parts.size(), std::vector<Tensor>());
    batch.done(std::move(result));
  }
  void write(std::string line) {
    const std::lock_guard lock(mutex);
    lines.push_back(std::move(line));
  }
  void go_on() {
    const std::lock_guard lock(mutex);
    stuck = VariantId::none();
    changed.notify_all();
  }
  std::vector<std::string>& lines;
  std::mutex mutex;
  std::condition_variable changed;
  VariantId stuck = VariantId::none();  // whose load does not end
};

// 100 MiB.
struct Resident {
  Resident() {
    options.types[0].memory_mb = 100;
    auto inner = std::make_unique<Scribe>(lines);
    scribe = inner.get();
    executor = make_resident_executor(std::move(inner), options, 0);
  }
  absl::Status know(uint32_t id, double memory_mb, std::optional<uint32_t> weights = {}) const {
    auto variant = std::make_shared<Variant>();
    variant->id = VariantId(id);
    if (weights) variant->weights = VariantId(*weights);
    variant->model = std::to_string(id);
    variant->memory = {memory_mb - 1, 1};
    return executor->load(variant);
  }
  absl::Status run(uint32_t id) const {
    std::promise<absl::Status> done;
    BatchRun batch{.variant = VariantId(id), .parts = {BatchPart()}};
    batch.done = [&](BatchResult result) { done.set_value(result.parts[0].status()); };
    executor->run(std::move(batch));
    return done.get_future().get();
  }
  std::future<absl::Status> load_ahead(uint32_t id) const {
    auto done = std::make_shared<std::promise<absl::Status>>();
    executor->load_ahead(VariantId(id), [done](absl::Status s) { done->set_value(std::move(s)); });
    return done->get_future();
  }
  std::vector<std::string> lines;
  WorkerOptions options;
  Scribe* scribe = nullptr;
  std::shared_ptr<Executor> executor;
};

TEST(ResidentExecutor, LoadsWhatRunsAndTheLeastRecentlyUsedGoes) {
  Resident r;
  for (uint32_t id : {1, 2, 3}) ASSERT_TRUE(r.know(id, 50).ok());
  for (uint32_t id : {1, 2, 1, 3, 1}) EXPECT_TRUE(r.run(id).ok());
  r.executor.reset();
  EXPECT_THAT(r.lines, ElementsAre("load 1", "run 1", "load 2", "run 2", "run 1", "unload 2",
                                   "load 3", "run 3", "run 1"));
}

TEST(ResidentExecutor, OneMayHaveToMakeRoomForSeveral) {
  Resident r;
  ASSERT_TRUE(r.know(1, 40).ok() && r.know(2, 40).ok() && r.know(3, 90).ok());
  for (uint32_t id : {1, 2, 3}) EXPECT_TRUE(r.run(id).ok());
  r.executor.reset();
  EXPECT_THAT(r.lines, ElementsAre("load 1", "run 1", "load 2", "run 2", "unload 1", "unload 2",
                                   "load 3", "run 3"));
}

TEST(ResidentExecutor, WhatNeverFitsIsRefusedAtOnce) {
  const Resident r;
  EXPECT_EQ(r.know(1, 101).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(r.know(1, 100).ok());
}

TEST(ResidentExecutor, ABatchWhoseVariantDoesNotLoadFailsAndTakesNoRoom) {
  Resident r;
  ASSERT_TRUE(r.know(9, 60).ok() && r.know(1, 60).ok());
  EXPECT_EQ(r.run(9).code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(r.run(1).ok());
  r.executor.reset();
  EXPECT_THAT(r.lines, ElementsAre("load 9", "load 1", "run 1"));
}

TEST(ResidentExecutor, ToSwitchBetweenWidthsOfOneNetworkLoadsNothing) {
  Resident r;
  for (uint32_t id : {1, 2}) ASSERT_TRUE(r.know(id, 60, 1).ok());
  for (uint32_t id : {1, 2, 1, 2}) EXPECT_TRUE(r.run(id).ok());
  EXPECT_EQ(std::count(r.lines.begin(), r.lines.end(), "load 1"), 1);
  EXPECT_EQ(std::count(r.lines.begin(), r.lines.end(), "load 2"), 1);
  ASSERT_TRUE(r.know(3, 60).ok());  // their room is taken once, and given back at once
  EXPECT_TRUE(r.run(3).ok());
  EXPECT_EQ(std::count(r.lines.begin(), r.lines.end(), "unload 1"), 1);
  EXPECT_EQ(std::count(r.lines.begin(), r.lines.end(), "unload 2"), 1);
}

TEST(ResidentExecutor, AWidthThatDoesNotLoadLeavesTheOthersAlone) {
  Resident r;
  for (uint32_t id : {8, 9, 10}) ASSERT_TRUE(r.know(id, 60, 8).ok());
  EXPECT_TRUE(r.run(8).ok());
  EXPECT_EQ(r.run(9).code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(r.run(10).ok());
  EXPECT_TRUE(r.run(8).ok());
  EXPECT_EQ(std::count(r.lines.begin(), r.lines.end(), "load 8"), 1);
  EXPECT_EQ(std::count(r.lines.begin(), r.lines.end(), "load 10"), 1);
}

TEST(ResidentExecutor, WhatIsThereRunsWhileAnotherIsLoadedAhead) {
  Resident r;
  for (uint32_t id : {1, 2, 3}) ASSERT_TRUE(r.know(id, 30).ok());
  EXPECT_TRUE(r.run(1).ok());
  r.scribe->stuck = VariantId(2);
  auto second = r.load_ahead(2);
  EXPECT_TRUE(r.run(1).ok());
  auto third = r.load_ahead(3);
  r.scribe->go_on();
  EXPECT_TRUE(second.get().ok());
  EXPECT_TRUE(third.get().ok());
  EXPECT_TRUE(r.load_ahead(3).get().ok());  // it is there
  EXPECT_TRUE(r.run(2).ok());
  r.executor->let_go(VariantId(3));
  r.executor.reset();
  EXPECT_EQ(std::count(r.lines.begin(), r.lines.end(), "load 2"), 1);
  EXPECT_EQ(std::count(r.lines.begin(), r.lines.end(), "load 3"), 1);
  EXPECT_EQ(r.lines.back(), "unload 3");
}

TEST(ResidentExecutor, ABatchWaitsForItsVariantThatIsBeingLoadedAhead) {
  Resident r;
  ASSERT_TRUE(r.know(1, 60).ok() && r.know(9, 60).ok());
  r.scribe->stuck = VariantId(1);
  auto ahead = r.load_ahead(1);
  auto ran = std::async(std::launch::async, [&] { return r.run(1); });
  r.scribe->go_on();
  EXPECT_TRUE(ahead.get().ok());
  EXPECT_TRUE(ran.get().ok());
  EXPECT_EQ(r.load_ahead(9).get().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(r.load_ahead(7).get().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(std::count(r.lines.begin(), r.lines.end(), "load 1"), 1);
}

TEST(ResidentExecutor, WhatIsUnloadedGivesItsRoomBack) {
  Resident r;
  ASSERT_TRUE(r.know(1, 60).ok() && r.know(2, 60).ok());
  EXPECT_TRUE(r.run(1).ok());
  r.executor->unload(VariantId(1));
  EXPECT_TRUE(r.run(2).ok());
  r.executor.reset();
  EXPECT_THAT(r.lines, ElementsAre("load 1", "run 1", "unload 1", "load 2", "run 2"));
}

}  // namespace
}  // namespace fermata::engine
