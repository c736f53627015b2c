#include "estimate/control_delay.h"

#include <gtest/gtest.h>

namespace fermata::estimate {
namespace {

Time at_second(double s) { return Time() + Duration::from_seconds(s); }

TEST(ControlDelay, FollowsWhatIsMeasured) {
  ControlDelay delay;
  for (int i = 0; i < 1000; ++i) delay.observe(Duration::millis(20), at_second(0.001 * i));
  EXPECT_NEAR(delay.bound().millis(), 20, 4);
}

TEST(ControlDelay, TheUsualOneIsNoneOfFew) {
  ControlDelay delay;
  for (int i = 0; i < 2000; ++i) {
    delay.observe(i % 10 == 0 ? Duration::millis(20) : Duration::micros(50), at_second(0.001 * i));
  }
  EXPECT_GT(delay.bound(), Duration::millis(10));
  EXPECT_LT(delay.usual(), Duration::micros(70));
}

// Of a run of 10 ms: with 0.2 ms more an idle server answers in time, with 0.02 ms more it does
// not.
TEST(ControlDelay, ABudgetThatAnIdleServerMeetsIsTried) {
  ControlDelay delay;  // allows for 0.5 ms, usually 0.1
  const Time now = at_second(1);
  const Duration run = Duration::millis(10);
  const auto kept = [&](Duration budget) {
    return delay.deadline_when_idle(now + budget, now, run);
  };
  EXPECT_EQ(kept(Duration::micros(10'020)), now + Duration::micros(10'020));
  EXPECT_EQ(kept(Duration::micros(10'200)), now + Duration::micros(10'500));
  EXPECT_EQ(kept(Duration::micros(10'600)), now + Duration::micros(10'600));
}

// A busy moment: from then on everything is refused, so nothing is measured any more.
TEST(ControlDelay, IsDoubtedWhereItRefusesAndNothingIsMeasured) {
  ControlDelay delay;
  const Duration first = delay.bound();
  for (int i = 0; i < 1000; ++i) delay.observe(Duration::millis(26), at_second(0.001 * i));
  const Duration busy = delay.bound();
  EXPECT_FALSE(delay.doubted(at_second(1.5)));  // something was measured within the second
  EXPECT_EQ(delay.bound(), busy);
  for (int i = 0; i < 100; ++i) delay.doubted(at_second(2 + 0.1 * i));
  EXPECT_LT(delay.bound(), Duration::millis(5));
  for (int i = 0; i < 1000; ++i) delay.doubted(at_second(20 + i));
  EXPECT_GE(delay.bound(), first);  // it expects no less than when it knew nothing
  EXPECT_LE(delay.bound(), first * 2);
}

}  // namespace
}  // namespace fermata::estimate
