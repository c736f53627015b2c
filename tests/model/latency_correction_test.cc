#include "model/latency_correction.h"

#include <gtest/gtest.h>

namespace fermata {
namespace {

// 10 ms at every size, as a profile says.
LatencyCorrection ten_milliseconds() {
  auto table = LatencyTable::make(LinearLatency{0, 10}, 8);
  return LatencyCorrection(*table, 0.9, false);
}

TEST(LatencyCorrection, DoubtGoesNoFurtherThanTheFastestRun) {
  LatencyCorrection correction = ten_milliseconds();
  correction.measured(1, Duration::millis(10));
  for (int i = 0; i < 200; ++i) correction.measured(1, Duration::millis(100));
  const auto slow = correction.publish();
  ASSERT_NE(slow, nullptr);
  EXPECT_GT((*slow)(1), Duration::millis(90));
  for (int i = 0; i < 50; ++i) correction.doubted(1);
  const auto doubted = correction.publish();
  ASSERT_NE(doubted, nullptr);
  EXPECT_NEAR((*doubted)(1).millis(), 10.0, 0.1);
  EXPECT_GT(doubted->version(), slow->version());
}

TEST(LatencyCorrection, DoubtOfAProfileStopsAtHalfOfIt) {
  LatencyCorrection correction = ten_milliseconds();
  for (int i = 0; i < 100; ++i) correction.doubted(4);
  EXPECT_NEAR((*correction.publish())(4).millis(), 5.0, 0.01);
}

TEST(LatencyCorrection, OneStepOfDoubtGivesUpAFifthOfTheExcess) {
  LatencyCorrection correction = ten_milliseconds();
  correction.doubted(1);  // 10 -> 5 + 0.8 * (10 - 5)
  EXPECT_NEAR((*correction.publish())(1).millis(), 9.0, 1e-6);
}

// Within what is published at once, yet whoever starts at the last moment would be late for good.
TEST(LatencyCorrection, ALittleIsPublishedOnceItHasSettled) {
  LatencyCorrection correction = ten_milliseconds();
  int published = 0;
  std::shared_ptr<const LatencyTable> last;
  for (int i = 0; i < 256; ++i) {
    correction.measured(1, Duration::from_millis(10.4));
    if (auto table = correction.publish()) {
      last = std::move(table);
      ++published;
    }
  }
  ASSERT_NE(last, nullptr);
  EXPECT_NEAR((*last)(1).millis(), 10.4, 0.06);
  EXPECT_LE(published, 4);
}

// A server that starts beside others runs slowly at first.
TEST(LatencyCorrection, AFewSlowRunsAreDoubtedDownToTheProfile) {
  LatencyCorrection correction = ten_milliseconds();
  for (int i = 0; i < 10; ++i) correction.measured(1, Duration::from_millis(200));
  ASSERT_NE(correction.publish(), nullptr);
  for (int i = 0; i < 50; ++i) correction.doubted(1);
  EXPECT_NEAR((*correction.publish())(1).millis(), 10.0, 0.1);
}

TEST(LatencyCorrection, ManySlowRunsAreBelieved) {
  LatencyCorrection correction = ten_milliseconds();
  for (int i = 0; i < 200; ++i) correction.measured(1, Duration::from_millis(200));
  for (int i = 0; i < 50; ++i) correction.doubted(1);
  EXPECT_NEAR((*correction.publish())(1).millis(), 200.0, 10.0);
}

TEST(LatencyCorrection, AnEstimateAtTheFastestRunStays) {
  LatencyCorrection correction = ten_milliseconds();
  correction.measured(1, Duration::millis(10));
  correction.doubted(1);
  EXPECT_EQ(correction.publish(), nullptr);
}

}  // namespace
}  // namespace fermata
