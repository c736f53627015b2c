#include "estimate/variation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"

namespace fermata::estimate {
namespace {

constexpr Duration kWindow = Duration::millis(10);
Time at_ms(double ms) { return Time() + Duration::from_millis(ms); }

TEST(CountVariation, CountsOnNothingInTheFirstWindow) {
  CountVariation variation;
  EXPECT_EQ(variation.value(), 1);
  variation.count(at_ms(0), 5, kWindow);
  variation.count(at_ms(9), 5, kWindow);
  EXPECT_EQ(variation.value(), 1);
}

TEST(CountVariation, IsZeroWhereEachWindowHasTheSame) {
  CountVariation variation;
  for (int i = 0; i < 100; ++i) variation.count(at_ms(i), 3, kWindow);
  EXPECT_NEAR(variation.value(), 0, 1e-9);
}

TEST(CountVariation, IsTheVarianceByTheMean) {
  CountVariation variation;
  // Counts 14 and 2 in turn: mean 8, variance 36.
  for (int i = 0; i < 100; ++i) variation.count(at_ms(10 * i), i % 2 == 0 ? 14 : 2, kWindow);
  variation.count(at_ms(1000), 0, kWindow);
  EXPECT_NEAR(variation.value(), 36.0 / 8, 1e-9);
}

TEST(CountVariation, SmallNumbersAreNoBursts) {
  CountVariation variation;
  Random random(3);
  double now_ms = 0;
  for (int i = 0; i < 20'000; ++i) {
    now_ms += -20 * std::log(1 - random.uniform());  // Poisson: half of one a window
    variation.count(at_ms(now_ms), 1, kWindow);
  }
  EXPECT_NEAR(variation.value(), 1, 0.3);
}

TEST(CountVariation, SilentWindowsCount) {
  CountVariation variation;
  for (int i = 0; i < 100; ++i) variation.count(at_ms(i), 3, kWindow);
  variation.count(at_ms(3000), 3, kWindow);
  EXPECT_GT(variation.value(), 10);  // 30 in some windows, nothing in most
}

TEST(CountVariation, ALongWindowEndsAsSoonAsShorterOnes) {
  CountVariation variation;
  variation.count(at_ms(0), 1, Duration::seconds(1'000'000'000));
  for (int i = 1; i <= 200; ++i) variation.count(at_ms(10 * i), i % 2 == 0 ? 14 : 2, kWindow);
  EXPECT_NEAR(variation.value(), 36.0 / 8, 0.1);
}

TEST(CountVariation, ForgetsBurstsOnceArrivalsAreSteady) {
  CountVariation variation;
  for (int i = 0; i < 100; ++i) variation.count(at_ms(100 * i), 100, kWindow);
  EXPECT_GT(variation.value(), 50);
  for (int i = 0; i < 20'000; ++i) variation.count(at_ms(10'000 + i), 10, kWindow);
  EXPECT_LT(variation.value(), 0.1);
}

TEST(CountVariation, NeverCountsWithoutAWindow) {
  CountVariation variation;
  for (int i = 0; i < 100; ++i) variation.count(at_ms(i), 3, Duration::infinite());
  for (int i = 100; i < 200; ++i) variation.count(at_ms(i), 3, Duration());
  EXPECT_EQ(variation.value(), 1);
}

// Against counts kept in full: 200 windows, so that all of them still count alike.
TEST(CountVariation, AgreesWithTheWholeHistory) {
  Random random(7);
  for (int round = 0; round < 20; ++round) {
    CountVariation variation;
    std::vector<double> counts(200);
    for (size_t i = 0; i < counts.size(); ++i) {
      counts[i] = static_cast<double>(1 + random.below(20));
      variation.count(at_ms(10.0 * static_cast<double>(i)), static_cast<uint32_t>(counts[i]),
                      kWindow);
    }
    variation.count(at_ms(2000), 0, kWindow);
    double mean = 0, square = 0;
    for (const double c : counts) mean += c / 200, square += c * c / 200;
    EXPECT_NEAR(variation.value(), square / mean - mean, 1e-9);
  }
}

}  // namespace
}  // namespace fermata::estimate
