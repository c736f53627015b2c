#include "estimate/reply_delay.h"

#include <gtest/gtest.h>

namespace fermata::estimate {
namespace {

TEST(ReplyDelay, FollowsWhatIsMeasured) {
  ReplyDelay delay;
  EXPECT_LT(delay.allowance(Duration::seconds(1)), Duration::millis(1));
  for (int i = 0; i < 1000; ++i) delay.observe(Duration::millis(2));
  EXPECT_NEAR(delay.allowance(Duration::seconds(1)).millis(), 2, 0.4);
}

TEST(ReplyDelay, TakesATenthOfABudgetAtMost) {
  ReplyDelay delay;
  for (int i = 0; i < 1000; ++i) delay.observe(Duration::millis(20));
  EXPECT_EQ(delay.allowance(Duration::millis(50)), Duration::millis(5));
  EXPECT_EQ(delay.allowance(Duration()), Duration());
  EXPECT_EQ(delay.allowance(Duration() - Duration::millis(3)), Duration());
}

}  // namespace
}  // namespace fermata::estimate
