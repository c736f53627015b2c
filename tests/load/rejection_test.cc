#include "load/rejection.h"

#include <gtest/gtest.h>

#include <string>

namespace fermata::load {
namespace {

TEST(RejectionMargin, IsWhatWasLeftLessTheRunAlone) {
  EXPECT_EQ(
      rejection_margin("cannot end in time: the budget was 50.000 ms, 20.500 ms of it are left, "
                       "the expected wait is 30.000 ms and the run time 5.000 ms"),
      Duration::from_millis(15.5));
  EXPECT_EQ(
      rejection_margin("the budget was 50.000 ms and ended 1.000 ms ago, the expected wait is "
                       "0.000 ms and the run time 5.000 ms"),
      Duration::millis(-6));
}

TEST(RejectionMargin, IsOfTheLastMomentThatTheServersOwnDelayAllowsFor) {
  const std::string left =
      "the budget was 50.000 ms, 20.500 ms of it are left, the expected wait is 30.000 ms, the run "
      "time 5.000 ms and the allowance for the server's own delay ";
  EXPECT_EQ(rejection_margin(left + "0.500 ms"), Duration::millis(15));
  EXPECT_EQ(rejection_margin(left + "46.000 ms"), std::nullopt);
}

TEST(RejectionMargin, SaysNothingOfHopelessBudgetsAndOtherWords) {
  EXPECT_EQ(
      rejection_margin("the budget was 1.000 ms, 0.957 ms of it are left, the expected wait is "
                       "0.000 ms and the run time 13.016 ms"),
      std::nullopt);
  EXPECT_EQ(rejection_margin("Deadline Exceeded"), std::nullopt);
  EXPECT_EQ(rejection_margin("the budget was soon"), std::nullopt);
}

}  // namespace
}  // namespace fermata::load
