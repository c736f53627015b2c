#include "estimate/weighted_quantile.h"

#include <gtest/gtest.h>

namespace fermata::estimate {
namespace {

Duration ms(int64_t n) { return Duration::millis(n); }

TEST(WeightedQuantile, IsZeroBeforeAnythingWasAdded) {
  EXPECT_EQ(WeightedQuantile(0.9).value(), Duration());
}

TEST(WeightedQuantile, IsTheLeastValueThatHoldsItsShare) {
  WeightedQuantile quantile(0.75);
  for (int i = 1; i <= 4; ++i) quantile.add(ms(i), 1);
  EXPECT_EQ(quantile.value(), ms(3));
  for (int i = 1; i <= 4; ++i) quantile.add(ms(0), 1);
  EXPECT_EQ(quantile.value(), ms(2));
}

TEST(WeightedQuantile, CountsWeightsNotValues) {
  WeightedQuantile quantile(0.9);
  for (int i = 0; i < 15; ++i) quantile.add(ms(1), 1);
  quantile.add(ms(100), 0.1);
  EXPECT_EQ(quantile.value(), ms(1));
  quantile = WeightedQuantile(0.9);
  for (int i = 0; i < 15; ++i) quantile.add(ms(1), 0.1);
  quantile.add(ms(100), 1);
  EXPECT_EQ(quantile.value(), ms(100));
}

TEST(WeightedQuantile, ForgetsWhatIsLongPast) {
  WeightedQuantile quantile(0.97);
  for (int i = 0; i < 400; ++i) quantile.add(ms(50), 1);
  EXPECT_EQ(quantile.value(), ms(50));
  for (int i = 0; i < 400; ++i) quantile.add(ms(2), 1);
  EXPECT_EQ(quantile.value(), ms(2));
}

}  // namespace
}  // namespace fermata::estimate
