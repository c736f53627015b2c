#include "plan/autoscale.h"

#include <gtest/gtest.h>

namespace fermata::plan {
namespace {

TEST(Autoscale, AddsWhatTheBadRateLacks) {
  EXPECT_EQ(workers_to_add({8, 0.2, 0}), 2);     // 8 * 0.2 / 0.8
  EXPECT_EQ(workers_to_add({100, 0.02, 0}), 3);  // 2.04, rounded up
  EXPECT_EQ(workers_to_add({8, 0.5, 0}), 8);
  EXPECT_EQ(workers_to_add({8, 1.0, 0}), 72);  // as at 0.9
  EXPECT_EQ(workers_to_add({0, 1.0, 0}), 1);
}

TEST(Autoscale, GivesBackWhatIdles) {
  EXPECT_EQ(workers_to_add({8, 0.0, 0.5}), -4);
  EXPECT_EQ(workers_to_add({8, 0.01, 0.49}), -3);  // 3.92, rounded down; 0.01 is tolerated
  EXPECT_EQ(workers_to_add({8, 0.0, 1.0}), -7);    // one stays
  EXPECT_EQ(workers_to_add({1, 0.0, 1.0}), 0);
}

TEST(Autoscale, ABadRateAboveTheThresholdOutweighsIdleness) {
  EXPECT_EQ(workers_to_add({10, 0.02, 0.9}), 1);
  EXPECT_EQ(workers_to_add({10, 0.02, 0.9}, 0.05), -9);
}

}  // namespace
}  // namespace fermata::plan
