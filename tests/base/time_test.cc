#include "base/time.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace fermata {
namespace {

TEST(Duration, WhatIsTooLongForItsNumberIsInfinite) {
  EXPECT_TRUE(Duration::from_seconds(1e15).is_infinite());
  EXPECT_TRUE(Duration::from_seconds(std::numeric_limits<double>::infinity()).is_infinite());
  EXPECT_TRUE(Duration::from_seconds(std::nan("")).is_infinite());
  EXPECT_TRUE(Duration::seconds(1).scaled(1e15).is_infinite());
  EXPECT_TRUE((-Duration::seconds(1).scaled(-1e15)).is_infinite());
  EXPECT_TRUE(Duration::infinite().scaled(1.0).is_infinite());
}

TEST(Duration, RoundsToTheNearestNanosecond) {
  EXPECT_EQ(Duration::from_seconds(1.4e-9).nanos(), 1);
  EXPECT_EQ(Duration::from_seconds(1.6e-9).nanos(), 2);
  EXPECT_EQ(Duration::from_seconds(-1.6e-9).nanos(), -2);
  EXPECT_EQ(Duration::from_millis(1.5).nanos(), 1'500'000);
}

}  // namespace
}  // namespace fermata
