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

TEST(PoolSize, RisesAtOnceAndFallsAfterCalmWindowsByHalf) {
  PoolSize pool(1, 8);
  EXPECT_EQ(pool.next(3), 4u);
  EXPECT_EQ(pool.next(9), 8u);
  for (const int64_t spare : {-6, -4}) EXPECT_EQ(pool.next(spare), 8u);
  EXPECT_EQ(pool.next(-5), 6u);  // half of the least, 4
  EXPECT_EQ(pool.next(-5), 6u);
  EXPECT_EQ(pool.next(0), 6u);  // the calm is over
  for (int i = 0; i < 2; ++i) EXPECT_EQ(pool.next(-1), 6u);
  EXPECT_EQ(pool.next(-1), 5u);
  EXPECT_EQ(pool.next(-4, 7), 7u);  // a plan wants more
}

// A load that needs 2.5 workers: 2 fail some requests, and of 3 half a one idles, which is not one.
TEST(PoolSize, ALoadBetweenTwoSizesDoesNotAlternate) {
  PoolSize pool(1, 8);
  uint32_t changes = 0, before = 1;
  for (int window = 0; window < 100; ++window) {
    const double n = before;
    const double bad = n < 2.5 ? 1 - n / 2.5 : 0, idle = n < 2.5 ? 0 : 1 - 2.5 / n;
    const uint32_t now = pool.next(workers_to_add({before, bad, idle}));
    changes += now != before;
    before = now;
  }
  EXPECT_LE(changes, 2u);
}

TEST(Autoscale, WhoFailsRequestsBesideIdleWorkersKeepsWhatItHas) {
  EXPECT_EQ(workers_to_add({10, 0.02, 0.6}), 0);
  EXPECT_EQ(workers_to_add({10, 0.9, 0.6}), 0);
  EXPECT_EQ(workers_to_add({10, 0.02, 0.4}), 1);
  EXPECT_EQ(workers_to_add({10, 0.02, 0.9}, 0.05), -9);
}

TEST(PoolSize, WhatAPlanGivesUpLeavesAsSoonAsItIdles) {
  PoolSize pool(1, 40);
  EXPECT_EQ(pool.next(0, 30), 30u);
  EXPECT_EQ(pool.next(0, 10), 30u);    // the load that was planned for is still there
  EXPECT_EQ(pool.next(-8, 10), 22u);   // as many as idled
  EXPECT_EQ(pool.next(-15, 10), 10u);  // the rest; never below the plan
  EXPECT_EQ(pool.next(3, 10), 13u);    // what the signal adds goes by its own rule
  EXPECT_EQ(pool.next(-2, 10), 13u);
  EXPECT_EQ(pool.next(-2, 10), 13u);
  EXPECT_EQ(pool.next(-2, 10), 12u);
}

TEST(PoolSize, WhatTheSignalAddedDoesNotLeaveWithAPlan) {
  PoolSize pool(1, 40);
  EXPECT_EQ(pool.next(29, 1), 30u);
  EXPECT_EQ(pool.next(0, 30), 30u);  // nothing was added for it
  EXPECT_EQ(pool.next(0, 1), 30u);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(pool.next(-10, 1), 30u);
  EXPECT_EQ(pool.next(-10, 1), 25u);
}

TEST(PoolSize, APlanBeyondTheMostGivesUpNoMoreThanThat) {
  PoolSize pool(2, 10);
  EXPECT_EQ(pool.next(0, 100), 10u);
  EXPECT_EQ(pool.next(0, 8), 10u);
  EXPECT_EQ(pool.next(-9, 8), 8u);
  EXPECT_EQ(pool.next(-7, 1), 2u);
  EXPECT_EQ(pool.next(5, 1), 7u);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(pool.next(-4, 1), 7u);
  EXPECT_EQ(pool.next(-4, 1), 5u);
}

}  // namespace
}  // namespace fermata::plan
