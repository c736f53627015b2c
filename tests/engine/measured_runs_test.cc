#include "engine/services/measured_runs.h"

#include <gmock/gmock.h>

namespace fermata::engine {
namespace {

using Batches = std::map<uint32_t, BatchSizeStatistics>;

const VariantId kFirst(1), kSecond(2);

std::shared_ptr<const LatencyTable> profile() {
  return *LatencyTable::make(LinearLatency{10, 10}, 4);  // 20 ms for one, 50 for four
}

// So many batches of a size, that took so long together.
void add(Batches& batches, uint32_t items, uint64_t count, double ms) {
  BatchSizeStatistics& size = batches[items];
  size.compute_infer.count += count;
  size.compute_infer.total += Duration::from_millis(ms);
}

TEST(MeasuredRuns, KnowNothingAtFirst) {
  MeasuredRuns runs;
  EXPECT_EQ(runs.ratio(), std::nullopt);
  runs.look(kFirst, *profile(), {});
  EXPECT_EQ(runs.ratio(), std::nullopt);
}

TEST(MeasuredRuns, CompareEverySizeWithItsOwnProfile) {
  MeasuredRuns runs;
  Batches batches;
  add(batches, 1, 5, 200);  // 100 by the profile
  add(batches, 4, 2, 100);  // 100
  runs.look(kFirst, *profile(), batches);
  EXPECT_DOUBLE_EQ(*runs.ratio(), 1.5);
}

TEST(MeasuredRuns, ForgetAsTheMachineChanges) {
  MeasuredRuns runs;
  Batches batches;
  add(batches, 1, 10, 200);
  runs.look(kFirst, *profile(), batches);
  EXPECT_DOUBLE_EQ(*runs.ratio(), 1);
  for (int look = 0; look < 20; ++look) {
    add(batches, 1, 10, 600);
    runs.look(kFirst, *profile(), batches);
    EXPECT_GT(*runs.ratio(), 1.4);
  }
  EXPECT_NEAR(*runs.ratio(), 3, 0.01);
  for (int look = 0; look < 20; ++look) runs.look(kFirst, *profile(), batches);
  EXPECT_NEAR(*runs.ratio(), 3, 0.01);  // nothing new
}

TEST(MeasuredRuns, BeginAnewWithAnotherVariant) {
  MeasuredRuns runs;
  Batches batches;
  add(batches, 1, 10, 800);
  runs.look(kFirst, *profile(), batches);
  EXPECT_DOUBLE_EQ(*runs.ratio(), 4);
  runs.look(kSecond, *profile(), batches);
  EXPECT_EQ(runs.ratio(), std::nullopt);
  add(batches, 1, 10, 400);
  runs.look(kSecond, *profile(), batches);
  EXPECT_DOUBLE_EQ(*runs.ratio(), 2);
}

}  // namespace
}  // namespace fermata::engine
