#include "estimate/rate.h"

#include <gtest/gtest.h>

namespace fermata::estimate {
namespace {

Time at(int64_t ms) { return Time() + Duration::millis(ms); }

TEST(RateMeter, KnowsNothingInTheFirstWindow) {
  RateMeter rate;
  EXPECT_FALSE(rate.count(at(0), 1));
  EXPECT_FALSE(rate.count(at(49), 1));
  EXPECT_FALSE(rate.known());
  EXPECT_EQ(rate.per_second(), 0);
}

TEST(RateMeter, IsTheMeanOfTheWindowsThatEnded) {
  RateMeter rate;
  rate.count(at(0), 2);
  rate.count(at(10), 1);
  EXPECT_TRUE(rate.count(at(50), 9));  // the first window had 3: 60/s
  EXPECT_DOUBLE_EQ(rate.per_second(), 60);
  EXPECT_TRUE(rate.count(at(120), 0));  // the second had 9: (60 + 180) / 2
  EXPECT_DOUBLE_EQ(rate.per_second(), 120);
}

TEST(RateMeter, ForgetsAfterAHundredWindows) {
  RateMeter rate;
  rate.count(at(0), 500);
  for (int64_t ms = 50; ms <= 5050; ms += 50) rate.count(at(ms), 1);
  EXPECT_DOUBLE_EQ(rate.per_second(), 20);
}

TEST(RateMeter, ALongSilenceLeavesZero) {
  RateMeter rate;
  rate.count(at(0), 500);
  rate.count(at(1'000'000), 1);
  EXPECT_DOUBLE_EQ(rate.per_second(), 0);
  EXPECT_TRUE(rate.count(at(1'000'060), 1));
  EXPECT_DOUBLE_EQ(rate.per_second(), 0.2);  // 1 item in 100 windows of 50 ms
}

}  // namespace
}  // namespace fermata::estimate
