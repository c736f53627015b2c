#include "plan/placement/placement.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"

namespace fermata::plan {
namespace {

PlacementProblem small(uint32_t subclusters, std::vector<PlacementModel> models) {
  PlacementProblem p;
  p.subclusters = subclusters;
  p.max_rate_rps = 1e6;
  p.memory_mb = 1e6;
  p.max_steps = 200'000;
  p.models = std::move(models);
  return p;
}

PlacementProblem random_placement(uint64_t seed, uint32_t subclusters, size_t models) {
  Random random(seed);
  PlacementProblem p = small(subclusters, {});
  p.seed = seed;
  for (size_t i = 0; i < models; ++i) {
    PlacementModel m{"m" + std::to_string(i),     random.exponential(100),
                     80 + 800 * random.uniform(), 1500 + 4000 * random.uniform(),
                     1 + random.uniform(),        {}};
    if (random.below(3) > 0) m.current = static_cast<uint32_t>(random.below(subclusters));
    p.models.push_back(std::move(m));
  }
  return p;
}

// Every assignment, counted up like a number.
Placement brute_force(const PlacementProblem& p) {
  Placement best;
  std::vector<uint32_t> digits(p.models.size(), 0);
  for (;;) {
    Placement candidate = evaluate(p, digits);
    if (candidate.feasible && (!best.feasible || candidate.objective < best.objective)) {
      best = candidate;
    }
    size_t i = 0;
    while (i < digits.size() && ++digits[i] == p.subclusters) digits[i++] = 0;
    if (i == digits.size()) return best;
  }
}

TEST(Placement, EvaluatesEquations4To8And11) {
  PlacementProblem p = small(2, {{"m1", 120, 90, 2100, 1, 0u}, {"m2", 80, 110, 900, 1, {}}});
  const Placement e = evaluate(p, {0, 1});
  EXPECT_TRUE(e.feasible);
  EXPECT_DOUBLE_EQ(e.objective, 0.3);  // 20/100 + 10/100
  EXPECT_DOUBLE_EQ(e.rate_spread, 20);
  EXPECT_DOUBLE_EQ(e.memory_spread, 10);
  EXPECT_DOUBLE_EQ(e.rate_imbalance, 0.4);
  EXPECT_DOUBLE_EQ(e.memory_imbalance, 0.2);
  EXPECT_DOUBLE_EQ(e.change_cost, 1);                    // a first load, once
  EXPECT_DOUBLE_EQ(evaluate(p, {1, 0}).change_cost, 3);  // and a move, twice
}

TEST(Placement, AgreesWithBruteForce) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    PlacementProblem p = random_placement(seed, 2 + seed % 2, 8);
    if (seed % 3 == 0) p.max_change_cost = 8;
    if (seed % 4 == 0) p.memory_mb = 7500;
    if (seed % 5 == 0) p.max_rate_rps = 420;
    if (seed % 7 == 0) p.weight = 0;
    const Placement best = brute_force(p), ours = place(p);
    ASSERT_EQ(ours.feasible, best.feasible) << seed;
    EXPECT_TRUE(ours.exact) << seed;
    EXPECT_NEAR(ours.objective, best.objective, best.feasible ? 1e-9 : INFINITY) << seed;
  }
}

TEST(Placement, RateOfASubclusterIsBounded) {
  PlacementProblem p = small(2, {{"a", 60, 1, 1}, {"b", 50, 1, 1}, {"c", 40, 1, 1}});
  p.max_rate_rps = 90;
  const Placement placed = place(p);
  ASSERT_TRUE(placed.feasible);
  EXPECT_EQ(placed.assignment[1], placed.assignment[2]);  // only b and c fit together
  p.max_rate_rps = 80;
  EXPECT_EQ(place(p).binding, PlacementLimit::kRate);
  p.max_rate_rps = 55;
  EXPECT_NE(place(p).reason.find("a alone asks for 60 rps"), std::string::npos);
  p.max_rate_rps = 70;
  EXPECT_NE(place(p).reason.find("all models ask for 150 rps"), std::string::npos);
}

TEST(Placement, MemoryIsTheStaticSumAndTheLargestDynamicPart) {
  PlacementProblem p =
      small(2, {{"a", 1, 100, 900}, {"b", 1, 100, 900}, {"c", 1, 100, 100}, {"d", 1, 100, 100}});
  p.memory_mb = 1100;
  EXPECT_TRUE(place(p).feasible);
  p.models.push_back({"e", 1, 100, 100});  // one side holds three: 300 + 900
  EXPECT_TRUE(place(p).feasible);          // a, b beside each other; c, d, e apart
  p.memory_mb = 1099;
  const Placement none = place(p);
  EXPECT_FALSE(none.feasible);
  EXPECT_TRUE(none.exact);
  EXPECT_EQ(none.binding, PlacementLimit::kMemory);
}

TEST(Placement, CostOfChangeIsBounded) {
  PlacementProblem p = small(2, {{"a", 10, 1, 1, 1, 0u},
                                 {"b", 10, 1, 1, 1, 0u},
                                 {"c", 10, 1, 1, 1, 0u},
                                 {"d", 10, 1, 1, 1, 0u}});
  p.max_change_cost = 1.9;
  EXPECT_EQ(place(p).assignment, (std::vector<uint32_t>{0, 0, 0, 0}));
  p.max_change_cost = 2;
  EXPECT_EQ(place(p).change_cost, 2);
  EXPECT_EQ(place(p).rate_imbalance, 1);  // 30 and 10
  p.max_change_cost = 4;
  EXPECT_EQ(place(p).objective, 0);
  p.max_rate_rps = 20;
  p.max_change_cost = 3;
  EXPECT_EQ(place(p).binding, PlacementLimit::kChangeCost);
  for (PlacementModel& m : p.models) m.current.reset();
  EXPECT_NE(place(p).reason.find("first loads alone cost 4"), std::string::npos);
}

TEST(Placement, KeepsEveryLimitOnRandomProblems) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    PlacementProblem p = random_placement(seed, 8, 120);
    p.memory_mb = 15'000;
    p.max_rate_rps = 2'000;
    p.max_change_cost = 150;
    const Placement placed = place(p);
    ASSERT_TRUE(placed.feasible) << seed;
    EXPECT_TRUE(evaluate(p, placed.assignment).feasible);
    EXPECT_LE(placed.change_cost, 150);
    EXPECT_EQ(place(p).assignment, placed.assignment) << "the same seed gives the same answer";
  }
}

TEST(Placement, NothingToBalanceIsFine) {
  EXPECT_EQ(place(small(3, {{"idle", 0, 0, 0}})).objective, 0);
  EXPECT_EQ(place(small(1, {{"a", 5, 5, 5}, {"b", 7, 7, 7}})).objective, 0);
}

TEST(Placement, SchedulersShareTheSubclustersAndBoundTheirRate) {
  PlacementProblem p = random_placement(3, 8, 160);
  p.max_steps = 2'000'000;
  p.schedulers = 4;
  double rate = 0;
  for (const PlacementModel& m : p.models) rate += m.rate_rps;
  p.max_scheduler_rate_rps = rate / 4 * 1.01;
  const Placement placed = place(p);
  ASSERT_TRUE(placed.feasible);
  EXPECT_LT(placed.rate_imbalance, 0.02);
  EXPECT_LT(placed.memory_imbalance, 0.02);
  p.max_change_cost = 300;
  EXPECT_TRUE(place(p).feasible);
  p.max_scheduler_rate_rps = rate / 4 * 0.99;
  EXPECT_EQ(place(p).binding, PlacementLimit::kSchedulerRate);
}

// The figure of appendix A.2, with the steps of about a second.
TEST(Placement, Balances800ModelsOn20SubclustersWithinOnePercent) {
  constexpr double kTable1[6][2] = {{99, 2172}, {88, 1519},  {230, 3386},
                                    {84, 2653}, {170, 2798}, {822, 6200}};
  Random random(11);
  PlacementProblem p = small(20, {});
  p.max_steps = 4'000'000;
  for (int i = 0; i < 800; ++i) {
    const auto& sizes = kTable1[random.below(6)];
    const double k = 0.8 + 0.4 * random.uniform();
    p.models.push_back(
        {"m" + std::to_string(i), random.exponential(100), sizes[0] * k, sizes[1] * k, 1, {}});
  }
  const Placement placed = place(p);
  EXPECT_LE(placed.rate_imbalance, 0.01);
  EXPECT_LE(placed.memory_imbalance, 0.01);
}

}  // namespace
}  // namespace fermata::plan
