#include "plan/autoscale.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

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
  EXPECT_EQ(pool.next({3}), 4u);
  EXPECT_EQ(pool.next({9}), 8u);
  for (const int64_t spare : {-6, -4}) EXPECT_EQ(pool.next({spare}), 8u);
  EXPECT_EQ(pool.next({-5}), 6u);  // half of the least, 4
  EXPECT_EQ(pool.next({-5}), 6u);
  EXPECT_EQ(pool.next({0}), 6u);  // the calm is over
  for (int i = 0; i < 2; ++i) EXPECT_EQ(pool.next({-1}), 6u);
  EXPECT_EQ(pool.next({-1}), 5u);
  EXPECT_EQ(pool.next({-4, 7}), 7u);  // a plan wants more
}

// A load that needs 2.5 workers: 2 fail some requests, and of 3 half a one idles, which is not one.
TEST(PoolSize, ALoadBetweenTwoSizesDoesNotAlternate) {
  PoolSize pool(1, 8);
  uint32_t changes = 0, before = 1;
  for (int window = 0; window < 100; ++window) {
    const double n = before;
    const double bad = n < 2.5 ? 1 - n / 2.5 : 0, idle = n < 2.5 ? 0 : 1 - 2.5 / n;
    const uint32_t now = pool.next({workers_to_add({before, bad, idle})});
    changes += now != before;
    before = now;
  }
  EXPECT_LE(changes, 2u);
}

// A load that keeps almost all of whole workers busy: with these a few requests fail, and one more
// idles.
TEST(PoolSize, AFullPoolDoesNotAlternate) {
  PoolSize pool(1, 8);
  uint32_t size = 1;
  for (int window = 0; window < 100; ++window) {
    const bool lacks = size <= 3;
    const double busy = lacks ? size : 2.9;
    size = pool.next({workers_to_add({size, lacks ? 0.02 : 0, 1 - busy / size}), 0, busy});
    if (window > 20) {
      EXPECT_EQ(size, 4u);
    }
  }
  for (int window = 0; window < 3; ++window) {  // the load has fallen
    size = pool.next({workers_to_add({size, 0, 1 - 1.5 / size}), 0, 1.5});
  }
  EXPECT_EQ(size, 3u);
}

// Somebody else starts and stops them: late, only for differences above a tenth.
struct Follower {
  std::vector<uint32_t> asked;
  uint32_t there;
  void follow(uint32_t wanted, size_t late) {
    asked.push_back(wanted);
    if (asked.size() <= late) return;
    const uint32_t to = asked[asked.size() - 1 - late];
    if (std::abs(double{1} * to / there - 1) > 0.1) there = to;
  }
};

TEST(WantedWorkers, ASteadyLoadIsFollowedInFewSteps) {
  for (const double load : {0.3, 0.97, 1.0, 2.5, 7.98, 19.5, 41.0}) {
    for (const uint32_t start : {1u, 3u, 20u, 64u}) {
      for (const size_t late : {size_t{0}, size_t{1}, size_t{4}}) {
        WantedWorkers wanted(64, start);
        Follower pods{{}, start};
        uint32_t turns = 0;
        int way = 0;
        for (int window = 0; window < 300; ++window) {
          const double n = pods.there, noise = window % 3 == 0 ? 1.03 : 0.98;
          const double now = load * noise;
          const uint32_t before = pods.there;
          pods.follow(
              wanted.next({pods.there, now > n ? 1 - n / now : 0, std::max(0.0, 1 - now / n)}),
              late);
          const int step = pods.there > before ? 1 : pods.there < before ? -1 : 0;
          if (step * way < 0) ++turns;
          if (step != 0) way = step;
        }
        SCOPED_TRACE(testing::Message() << load << " of " << start << ", late by " << late);
        EXPECT_LE(turns, 3u);
        EXPECT_GE(pods.there + 1e-9, load * 0.98);          // it is carried
        EXPECT_LE(pods.there, std::ceil(load * 1.35) + 1);  // by few more than it takes
      }
    }
  }
}

// Eight requests at a time, and then one: less than what one worker has lacked for, though it is as
// busy.
TEST(PoolSize, AfterACrowdOneWorkerIsEnoughForOne) {
  PoolSize pool(1, 8);
  const PoolUse crowd{1, 0.5, 0}, alone{2, 0, 0.5};
  EXPECT_EQ(pool.next({workers_to_add(crowd), 0, load_of(crowd)}), 2u);
  for (int window = 0; window < 2; ++window) {
    EXPECT_EQ(pool.next({workers_to_add(alone), 0, load_of(alone)}), 2u);
  }
  EXPECT_EQ(pool.next({workers_to_add(alone), 0, load_of(alone)}), 1u);
}

TEST(WantedWorkers, SmallStepsOfLargePoolsAreLargeEnoughToBeSeen) {
  WantedWorkers wanted(64, 20);
  EXPECT_EQ(wanted.next({20, 0.02, 0}), 23u);
  EXPECT_EQ(wanted.next({20, 0.02, 0}), 23u);  // they are coming
  EXPECT_EQ(wanted.next({23, 0, 0.02}), 23u);
}

TEST(WantedWorkers, AtTheStartWhatIsThereStaysAndNobodyThereIsOne) {
  EXPECT_EQ(WantedWorkers(64, 9).next({9, 0, 0.5}), 9u);
  EXPECT_EQ(WantedWorkers(64, 0).next({0, 0, 0}), 1u);
  EXPECT_EQ(WantedWorkers(4, 4).next({4, 0.5, 0}), 4u);
}

TEST(Autoscale, WhoFailsRequestsBesideIdleWorkersKeepsWhatItHas) {
  EXPECT_EQ(workers_to_add({10, 0.02, 0.6}), 0);
  EXPECT_EQ(workers_to_add({10, 0.9, 0.6}), 0);
  EXPECT_EQ(workers_to_add({10, 0.02, 0.4}), 1);
  EXPECT_EQ(workers_to_add({10, 0.02, 0.9}, 0.05), -9);
}

TEST(PoolSize, WhatAPlanGivesUpLeavesAsSoonAsItIdles) {
  PoolSize pool(1, 40);
  EXPECT_EQ(pool.next({0, 30}), 30u);
  EXPECT_EQ(pool.next({0, 10}), 30u);    // the load that was planned for is still there
  EXPECT_EQ(pool.next({-8, 10}), 22u);   // as many as idled
  EXPECT_EQ(pool.next({-15, 10}), 10u);  // the rest; never below the plan
  EXPECT_EQ(pool.next({3, 10}), 13u);    // what the signal adds goes by its own rule
  EXPECT_EQ(pool.next({-2, 10}), 13u);
  EXPECT_EQ(pool.next({-2, 10}), 13u);
  EXPECT_EQ(pool.next({-2, 10}), 12u);
}

TEST(PoolSize, WhatTheSignalAddedDoesNotLeaveWithAPlan) {
  PoolSize pool(1, 40);
  EXPECT_EQ(pool.next({29, 1}), 30u);
  EXPECT_EQ(pool.next({0, 30}), 30u);  // nothing was added for it
  EXPECT_EQ(pool.next({0, 1}), 30u);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(pool.next({-10, 1}), 30u);
  EXPECT_EQ(pool.next({-10, 1}), 25u);
}

TEST(PoolSize, APlanBeyondTheMostGivesUpNoMoreThanThat) {
  PoolSize pool(2, 10);
  EXPECT_EQ(pool.next({0, 100}), 10u);
  EXPECT_EQ(pool.next({0, 8}), 10u);
  EXPECT_EQ(pool.next({-9, 8}), 8u);
  EXPECT_EQ(pool.next({-7, 1}), 2u);
  EXPECT_EQ(pool.next({5, 1}), 7u);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(pool.next({-4, 1}), 7u);
  EXPECT_EQ(pool.next({-4, 1}), 5u);
}

}  // namespace
}  // namespace fermata::plan
