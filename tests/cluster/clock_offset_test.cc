#include "cluster/wire/clock_offset.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>

namespace fermata::cluster {
namespace {

Time instant(int64_t micros) { return Time() + Duration::micros(micros); }

TEST(ClockOffset, KnowsNothingWithoutAnExchange) {
  EXPECT_FALSE(ClockOffset().bound(instant(0)).has_value());
}

TEST(ClockOffset, TheFastestExchangeSaysMost) {
  ClockOffset clock;
  clock.observe(instant(1000), instant(901'500),
                instant(2000));  // 900 ms ahead, half a millisecond either way
  clock.observe(instant(3000), instant(903'090),
                instant(3100));  // 50 us either way, and 40 of them one way
  const auto bound = clock.bound(instant(3100));
  ASSERT_TRUE(bound);
  EXPECT_EQ(bound->offset, Duration::micros(900'040));
  EXPECT_EQ(bound->error, Duration::micros(50));
  EXPECT_LE(std::abs((bound->offset - Duration::millis(900)).nanos()), bound->error.nanos());
}

TEST(ClockOffset, WhatItSaysGetsWorseWithAgeAndIsForgotten) {
  ClockOffset clock;
  clock.observe(instant(0), instant(50), instant(100));
  EXPECT_EQ(clock.bound(instant(100))->error, Duration::micros(50));
  EXPECT_EQ(clock.bound(instant(1'000'100))->error, Duration::micros(150));  // 100 ppm of a second
  EXPECT_FALSE(clock.bound(instant(9'000'100)).has_value());
}

TEST(ClockOffset, ALaterSlowerExchangeOfTheSameSecondChangesNothing) {
  ClockOffset clock;
  clock.observe(instant(0), instant(50), instant(100));
  clock.observe(instant(200), instant(900), instant(1000));
  EXPECT_EQ(clock.bound(instant(1000))->offset, Duration());
}

TEST(ClockOffset, WhatIsNoClockIsIgnored) {
  ClockOffset clock;
  clock.observe(instant(0), Time::from_nanos(std::numeric_limits<int64_t>::max()), instant(100));
  for (const int64_t more : {0, 1}) {  // the lowest has no opposite
    clock.observe(instant(0), Time::from_nanos(std::numeric_limits<int64_t>::min() + more),
                  instant(100));
  }
  EXPECT_FALSE(clock.bound(instant(100)).has_value());
}

}  // namespace
}  // namespace fermata::cluster
