#include "policy/stream/stream_residents.h"

#include <gtest/gtest.h>

namespace fermata::policy {
namespace {

Time moment(double ms) { return Time() + Duration::from_millis(ms); }

TEST(StreamResidents, TheOldOneRunsUntilTheNewOneIsLoaded) {
  StreamResidents one(1, 16, 1, Duration::millis(100));
  EXPECT_EQ(one.want(0, 7, moment(0)), std::nullopt);
  EXPECT_EQ(one.active(0, moment(0)), 7u);
  EXPECT_EQ(one.want(0, 8, moment(1000)), false);
  EXPECT_EQ(one.active(0, moment(1099)), 7u);
  EXPECT_EQ(one.active(0, moment(1100)), 8u);
  EXPECT_FALSE(one.holds(0, 7, moment(1100)));
  EXPECT_EQ(one.want(0, 8, moment(1200)), std::nullopt);
}

TEST(StreamResidents, WhatIsWantedMeanwhileIsLoadedInstead) {
  StreamResidents one(1, 16, 1, Duration::millis(100));
  one.want(0, 7, moment(0));
  one.want(0, 8, moment(1000));
  EXPECT_EQ(one.want(0, 9, moment(1050)), false);
  EXPECT_EQ(one.active(0, moment(1149)), 7u);
  EXPECT_EQ(one.active(0, moment(1150)), 9u);
  // Back before the other came: it has never left.
  one.want(0, 3, moment(2000));
  EXPECT_EQ(one.want(0, 9, moment(2050)), true);
  EXPECT_EQ(one.active(0, moment(2050)), 9u);
}

TEST(StreamResidents, NeighboursAreLoadedAhead) {
  StreamResidents five(1, 16, 5, Duration::millis(100));
  five.want(0, 7, moment(0));
  for (const uint32_t near : {5u, 6u, 7u, 8u, 9u}) EXPECT_TRUE(five.holds(0, near, moment(400)));
  EXPECT_FALSE(five.holds(0, 10, moment(900)));
  EXPECT_EQ(five.want(0, 9, moment(1000)), true);
  EXPECT_EQ(five.active(0, moment(1000)), 9u);
  EXPECT_TRUE(five.holds(0, 11, moment(2000)));
  EXPECT_FALSE(five.holds(0, 5, moment(2000)));
}

TEST(StreamResidents, WhereWorkersWentBeforeIsLoadedAheadToo) {
  StreamResidents five(1, 16, 5, Duration::millis(10));
  five.want(0, 2, moment(0));
  uint32_t missed = 0;
  for (int i = 1; i <= 40; ++i) {
    missed += five.want(0, i % 2 == 0 ? 2 : 14, moment(1000.0 * i)) == false;
  }
  EXPECT_LE(missed, 4u);
}

TEST(StreamResidents, WidthsOfOneNetworkAreThereAtOnce) {
  StreamResidents one(1, 16, 1, Duration());
  one.want(0, 7, moment(0));
  one.want(0, 12, moment(10));
  EXPECT_EQ(one.active(0, moment(10)), 12u);
}

}  // namespace
}  // namespace fermata::policy
