#include "engine/schedule/budget_text.h"

#include <gtest/gtest.h>

namespace fermata::engine {
namespace {

TEST(BudgetText, SpeaksOfWhatIsLeftOrOfWhenItEnded) {
  const Duration budget = Duration::millis(50);
  EXPECT_EQ(budget_text(budget, Duration::micros(20500)),
            "the budget was 50.000 ms, 20.500 ms of it are left");
  EXPECT_EQ(budget_text(budget, Duration()), "the budget was 50.000 ms, 0.000 ms of it are left");
  EXPECT_EQ(budget_text(budget, -Duration::micros(1500)),
            "the budget was 50.000 ms and ended 1.500 ms ago");
}

}  // namespace
}  // namespace fermata::engine
