#include "plan/placement/epoch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"

namespace fermata::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

PlacementModel model(std::string name, double rate, double memory,
                     std::optional<uint32_t> current = {}) {
  return {.name = std::move(name), .rate_rps = rate, .static_mb = memory, .current = current};
}

PlacementProblem two_workers(double memory_mb, std::vector<PlacementModel> models) {
  return {.subclusters = 2,
          .max_rate_rps = 1e6,
          .memory_mb = memory_mb,
          .max_change_cost = 2,
          .models = std::move(models)};
}

TEST(Epoch, MovesWithinTheBoundWhatGainsMost) {
  // 30 and 10 against nothing: moving either is one move, moving b leaves 30 : 10.
  const EpochPlan plan = plan_epoch(
      two_workers(100, {model("a", 30, 1, 0), model("b", 10, 1, 0), model("c", 20, 1, 0)}), 0.05);
  ASSERT_EQ(plan.steps.size(), 1u);
  EXPECT_FALSE(plan.stay);
  EXPECT_EQ(plan.steps[0].answer.change_cost, 2);
  EXPECT_THAT(plan.steps[0].answer.assignment, ElementsAre(1, 0, 0));
}

TEST(Epoch, NothingMovesForTooLittle) {
  // 21 : 19 would become 20 : 20, a gain of 0.05 and nothing in memory.
  const auto problem =
      two_workers(100, {model("a", 20, 1, 0), model("b", 1, 0, 0), model("c", 19, 1, 1)});
  EXPECT_TRUE(plan_epoch(problem, 0.06).stay);
  EXPECT_FALSE(plan_epoch(problem, 0.04).stay);
}

TEST(Epoch, FirstLoadsComeOnTopOfTheBound) {
  PlacementProblem problem =
      two_workers(10, {model("a", 0, 6, 0), model("b", 0, 3), model("c", 0, 3), model("d", 0, 3)});
  problem.max_change_cost = 0;
  const EpochPlan plan = plan_epoch(problem, 0.05);
  EXPECT_TRUE(plan.left_out.empty());
  EXPECT_FALSE(plan.stay);
  EXPECT_EQ(plan.steps.back().problem.max_change_cost, 3);
  EXPECT_EQ(plan.steps.back().answer.assignment[0], 0u);
}

TEST(Epoch, OthersMoveForANewcomerOnlyWhereThatGains) {
  // Nothing moves: 6 + 3 : 3, and the newcomer has no other place. Else a and b are apart.
  const auto problem =
      two_workers(12, {model("a", 0, 6, 0), model("b", 0, 3, 0), model("c", 0, 3)});
  EpochPlan plan = plan_epoch(problem, 1);
  EXPECT_THAT(plan.steps.back().answer.assignment, ElementsAre(0, 0, 1));
  plan = plan_epoch(problem, 0.05);
  EXPECT_EQ(plan.steps.back().answer.memory_spread, 0);
  EXPECT_EQ(plan.steps.size(), 2u);
}

TEST(Epoch, WhatNoWorkerHoldsIsLeftOut) {
  const EpochPlan plan = plan_epoch(two_workers(10, {model("a", 0, 6), model("giant", 0, 11)}), 0);
  ASSERT_EQ(plan.left_out.size(), 1u);
  EXPECT_EQ(plan.left_out[0].model, "giant");
  EXPECT_THAT(plan.left_out[0].reason, HasSubstr("it needs 11 MiB, a worker has 10 MiB"));
  EXPECT_TRUE(plan.steps.back().answer.feasible);
}

TEST(Epoch, TheLargestNewcomerIsLeftOutWhereNotAllFit) {
  const EpochPlan plan = plan_epoch(two_workers(10, {model("old", 0, 9, 1), model("b", 0, 5),
                                                     model("c", 0, 6), model("d", 0, 5)}),
                                    0);
  ASSERT_EQ(plan.left_out.size(), 1u);
  EXPECT_EQ(plan.left_out[0].model, "c");
  ASSERT_EQ(plan.steps.size(), 3u);
  EXPECT_FALSE(plan.steps[0].answer.feasible);
  EXPECT_EQ(plan.steps[0].answer.binding, PlacementLimit::kMemory);
  EXPECT_TRUE(plan.steps[1].answer.feasible);
  EXPECT_THAT(plan.steps[2].answer.assignment, ElementsAre(1, 0, 0));  // and old stays
}

TEST(Epoch, WhatIsPlacedIsNeverLeftOut) {
  const EpochPlan plan = plan_epoch(two_workers(10, {model("a", 0, 8, 0), model("b", 0, 9, 0)}), 0);
  EXPECT_TRUE(plan.left_out.empty());
  EXPECT_EQ(plan.steps.back().answer.change_cost, 2);  // it was too much for one; now it is not
  PlacementProblem stuck = two_workers(10, {model("a", 0, 8, 0), model("b", 0, 9, 0)});
  stuck.max_change_cost = 0;
  EXPECT_FALSE(plan_epoch(stuck, 0).steps.back().answer.feasible);
  EXPECT_TRUE(plan_epoch(stuck, 0).left_out.empty());
}

TEST(Epoch, ABoundOnRatesGivesWayToDemand) {
  PlacementProblem problem = two_workers(10, {model("a", 500, 3, 0), model("b", 500, 3, 0)});
  problem.max_rate_rps = 100;
  const EpochPlan plan = plan_epoch(problem, 0);
  ASSERT_EQ(plan.steps.size(), 2u);
  EXPECT_EQ(plan.steps[0].answer.binding, PlacementLimit::kRate);
  EXPECT_TRUE(plan.steps[1].answer.feasible);
  EXPECT_EQ(plan.steps[1].answer.rate_spread, 0);
}

TEST(Epoch, NoModelsNoProblem) {
  EXPECT_TRUE(plan_epoch(two_workers(10, {}), 0).steps.empty());
  EXPECT_EQ(fewest_subclusters(two_workers(10, {}), 4), 1u);
}

// Every assignment of models to bins, by counting in base `bins`.
bool some_assignment_fits(const PlacementProblem& problem, uint32_t bins) {
  PlacementProblem p = problem;
  p.subclusters = bins;
  std::vector<uint32_t> assignment(p.models.size());
  while (true) {
    if (evaluate(p, assignment).feasible) return true;
    size_t i = 0;
    while (i < assignment.size() && ++assignment[i] == bins) assignment[i++] = 0;
    if (i == assignment.size()) return false;
  }
}

TEST(Epoch, FewestSubclustersIsWhatCountingFinds) {
  Random random(7);
  for (int round = 0; round < 40; ++round) {
    PlacementProblem problem{.max_rate_rps = 1, .memory_mb = 100, .max_steps = 200'000};
    const size_t count = 1 + random.below(6);
    for (size_t i = 0; i < count; ++i) {
      problem.models.push_back(model("m" + std::to_string(i), 0, 10 + random.below(70)));
      problem.models.back().dynamic_mb = static_cast<double>(random.below(20));
    }
    uint32_t fewest = 1;
    while (!some_assignment_fits(problem, fewest)) ++fewest;
    EXPECT_EQ(fewest_subclusters(problem, 6), fewest) << round;
  }
}

TEST(Epoch, FewestSubclustersIsAtMostWhatThereIs) {
  EXPECT_EQ(fewest_subclusters(two_workers(10, {model("a", 0, 9), model("b", 0, 9)}), 1), 1u);
  EXPECT_EQ(fewest_subclusters(two_workers(10, {model("a", 0, 9), model("giant", 0, 99)}), 4), 1u);
}

}  // namespace
}  // namespace fermata::plan
