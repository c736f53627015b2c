#include "base/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/random.h"

namespace fermata {
namespace {

TEST(Histogram, IsEmptyAtFirst) {
  const Histogram h;
  EXPECT_EQ(h.count(), 0u);
  EXPECT_EQ(h.quantile(0.99), Duration());
  EXPECT_EQ(h.mean(), Duration());
}

TEST(Histogram, IsExactForSmallValues) {
  Histogram h;
  for (int64_t n = 1; n <= 100; ++n) h.record(Duration::nanos(n));
  EXPECT_EQ(h.quantile(0), Duration::nanos(1));
  EXPECT_EQ(h.quantile(0.5), Duration::nanos(50));
  EXPECT_EQ(h.quantile(1), Duration::nanos(100));
}

TEST(Histogram, NegativeCountsAsZero) {
  Histogram h;
  h.record(Duration::nanos(-5));
  EXPECT_EQ(h.max(), Duration());
  EXPECT_EQ(h.count(), 1u);
}

TEST(Histogram, QuantilesStayNearThoseOfTheSortedValues) {
  Random random(1);
  Histogram h;
  std::vector<int64_t> values;
  for (int i = 0; i < 20'000; ++i) {
    values.push_back(static_cast<int64_t>(random.exponential(5e6)));
    h.record(Duration::nanos(values.back()));
  }
  std::sort(values.begin(), values.end());
  for (double q : {0.01, 0.5, 0.9, 0.99, 0.999}) {
    const double exact = static_cast<double>(values[static_cast<size_t>(q * 20'000) - 1]);
    EXPECT_NEAR(static_cast<double>(h.quantile(q).nanos()), exact, 0.004 * exact + 1) << q;
  }
  EXPECT_EQ(h.max().nanos(), values.back());
}

TEST(Histogram, MergingEqualsRecordingTogether) {
  Histogram a, b, both;
  for (int64_t n : {3, 700, 90'000}) {
    a.record(Duration::nanos(n), 2);
    both.record(Duration::nanos(n), 2);
  }
  b.record(Duration::seconds(2));
  both.record(Duration::seconds(2));
  a.merge(b);
  EXPECT_EQ(a.count(), both.count());
  EXPECT_EQ(a.mean(), both.mean());
  for (double q : {0.1, 0.5, 0.9, 1.0}) EXPECT_EQ(a.quantile(q), both.quantile(q));
}

}  // namespace
}  // namespace fermata
