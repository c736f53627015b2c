#include "estimate/company.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace fermata::estimate {
namespace {

constexpr Duration kLongWindow = Duration::millis(100);

TEST(Company, OfPoissonArrivalsIsWhatTheRateSays) {
  Company company;
  Random random(1);
  Time now;
  for (int i = 0; i < 20'000; ++i) {
    now = now + Duration::from_seconds(random.exponential(1.0 / 80));
    company.count(now, kLongWindow);
  }
  EXPECT_NEAR(company.value(), 8, 1);
  EXPECT_NEAR(company.spread(), 1, 0.15);
}

TEST(Company, OfBurstsIsThatOfABurst) {
  Company company;
  for (int burst = 0; burst < 500; ++burst) {
    for (int i = 0; i < 9; ++i) {
      company.count(Time() + Duration::seconds(burst) + Duration::millis(2) * i, kLongWindow);
    }
  }
  EXPECT_NEAR(company.value(), 4, 0.2);       // from none of the first to eight of the last
  EXPECT_NEAR(company.spread(), 0.12, 0.05);  // 16 of 100 ms at most
}

TEST(Company, CountsNoMoreThanItRemembers) {
  Company company;
  for (int i = 0; i < 5000; ++i) company.count(Time() + Duration::micros(i), kLongWindow);
  EXPECT_NEAR(company.value(), 64, 1e-3);
  company.count(Time() + Duration::seconds(1), Duration::infinite());
  EXPECT_NEAR(company.value(), 64, 1e-3);
}

}  // namespace
}  // namespace fermata::estimate
