#include "estimate/co_arrivals.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace fermata::estimate {
namespace {

constexpr Duration kLongWindow = Duration::millis(100);

TEST(CoArrivals, OfPoissonArrivalsIsWhatTheRateSays) {
  CoArrivals co_arrivals;
  Random random(1);
  Time now;
  for (int i = 0; i < 20'000; ++i) {
    now = now + Duration::from_seconds(random.exponential(1.0 / 80));
    co_arrivals.count(now, kLongWindow);
  }
  EXPECT_NEAR(co_arrivals.value(), 8, 1);
  EXPECT_NEAR(co_arrivals.spread(), 1, 0.15);
}

TEST(CoArrivals, OfBurstsIsThatOfABurst) {
  CoArrivals co_arrivals;
  for (int burst = 0; burst < 500; ++burst) {
    for (int i = 0; i < 9; ++i) {
      co_arrivals.count(Time() + Duration::seconds(burst) + Duration::millis(2) * i, kLongWindow);
    }
  }
  EXPECT_NEAR(co_arrivals.value(), 4, 0.2);       // from none of the first to eight of the last
  EXPECT_NEAR(co_arrivals.spread(), 0.12, 0.05);  // 16 of 100 ms at most
}

TEST(CoArrivals, CountsNoMoreThanItRemembers) {
  CoArrivals co_arrivals;
  for (int i = 0; i < 5000; ++i) co_arrivals.count(Time() + Duration::micros(i), kLongWindow);
  EXPECT_NEAR(co_arrivals.value(), 64, 1e-3);
  co_arrivals.count(Time() + Duration::seconds(1), Duration::infinite());
  EXPECT_NEAR(co_arrivals.value(), 64, 1e-3);
}

}  // namespace
}  // namespace fermata::estimate
