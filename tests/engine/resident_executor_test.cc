#include "engine/execute/resident_executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "engine/fixture.h"

namespace fermata::engine {
namespace {

using ::testing::ElementsAre;

// Writes down what it is told; refuses to load variant 9.
struct Scribe final : Executor {
  explicit Scribe(std::vector<std::string>& to) : lines(to) {}
  absl::Status load(std::shared_ptr<const Variant> variant) override {
    lines.push_back("load " + variant->model);
    return variant->id == VariantId(9) ? absl::InternalError("broken") : absl::OkStatus();
  }
  void unload(VariantId id) override { lines.push_back("unload " + std::to_string(id.value())); }
  void run(BatchRun batch) override {
    lines.push_back("run " + std::to_string(batch.variant.value()));
    BatchResult result;
    result.parts.assign(batch.parts.size(), std::vector<Tensor>());
    batch.done(std::move(result));
  }
  std::vector<std::string>& lines;
};

// 100 MiB.
struct Resident {
  Resident() {
    options.types[0].memory_mb = 100;
    executor = make_resident_executor(std::make_unique<Scribe>(lines), options, 0);
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
  std::vector<std::string> lines;
  WorkerOptions options;
  std::unique_ptr<Executor> executor;
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
