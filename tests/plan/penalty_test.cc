#include "plan/variants/penalty.h"

#include <gtest/gtest.h>

namespace fermata::plan {
namespace {

// Of a request with 100 ms from arrival to deadline; x = (completion - 100) / 100.
TEST(Penalty, FollowsItsShapeUpToOne) {
  struct Row {
    double completion_ms, step, linear, sigmoid;
  };
  const Row rows[] = {
      {-5, 0, 0, 0},
      {100, 0, 0, 0},                // on the deadline is on time
      {110, 1, 0.1, 0.001 / 0.730},  // 1 / (1 + (0.1 / 0.9)^-3) = 0.001 / (0.001 + 0.729)
      {125, 1, 0.25, 1.0 / 28},      // 1 / (1 + 3^3)
      {150, 1, 0.5, 0.5},
      {200, 1, 1, 1},
      {900, 1, 1, 1},
  };
  const Duration slo = Duration::millis(100);
  for (const Row& row : rows) {
    const Duration completion = Duration::from_millis(row.completion_ms);
    EXPECT_EQ((Penalty{PenaltyShape::kStep}(slo, completion)), row.step);
    EXPECT_DOUBLE_EQ((Penalty{PenaltyShape::kLinear}(slo, completion)), row.linear);
    EXPECT_DOUBLE_EQ((Penalty{PenaltyShape::kSigmoid}(slo, completion)), row.sigmoid);
    EXPECT_EQ((Penalty{PenaltyShape::kNone}(slo, completion)), 0);
    EXPECT_EQ((Penalty{PenaltyShape::kConstant, 0.3}(slo, completion)), 0.3);
  }
}

}  // namespace
}  // namespace fermata::plan
