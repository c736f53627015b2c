#include "policy/stream/counted_workers.h"

#include <gtest/gtest.h>

namespace fermata::policy {
namespace {

// A standby may have waited for an hour; then clients come before its workers do.
TEST(CountedWorkers, ThoseThatHaveNotComeCountFromTheFirstPlanOn) {
  CountedWorkers workers(4);
  const Time first = Time() + Duration::seconds(3600);
  const Duration soon = Duration::millis(1);
  EXPECT_EQ(workers.plan(0, first), 4u);
  EXPECT_EQ(workers.plan(1, first + CountedWorkers::kComesBack), 4u);
  EXPECT_EQ(workers.plan(2, first + CountedWorkers::kComesBack + soon), 2u);
}

TEST(CountedWorkers, ThoseThatGoCountUntilOthersWouldHaveCome) {
  CountedWorkers workers(4);
  const auto at = [](int s) { return Time() + Duration::seconds(s); };
  EXPECT_EQ(workers.plan(4, at(1)), 4u);
  EXPECT_EQ(workers.plan(4, at(10)), 4u);
  EXPECT_EQ(workers.plan(0, at(13)), 4u);
  EXPECT_EQ(workers.plan(0, at(14)), 1u);
  EXPECT_EQ(workers.plan(3, at(15)), 3u);  // more at once
}

}  // namespace
}  // namespace fermata::policy
