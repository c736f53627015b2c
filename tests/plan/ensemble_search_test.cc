#include "plan/ensemble/ensemble_search.h"

#include <numeric>

#include "plan/ensemble/ensemble_counts.h"
#include "plan/ensemble_fixture.h"

namespace fermata::plan {
namespace {

constexpr uint64_t kManySteps = 1'000'000'000;

EnsembleTables tables_of(const EnsembleProblem& p) {
  std::vector<uint32_t> order(p.queries.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return p.queries[a].deadline < p.queries[b].deadline;
  });
  EnsembleTables tables;
  tables.build(p, order);
  return tables;
}

// Of subsets by place, every room kept.
double utility_of(const EnsembleTables& tables, const std::vector<Subset>& subsets) {
  TaskCounts counts = {};
  double sum = 0;
  for (size_t i = 0; i < tables.queries(); ++i) {
    EXPECT_TRUE(tables.has_room(i, counts, subsets[i]));
    add_tasks(counts, subsets[i]);
    for (const EnsembleOption& o : tables.options(i)) {
      if (o.subset == subsets[i]) sum += o.utility;
    }
  }
  return sum;
}

TEST(EnsembleSearch, IsAsGoodAsAllCounts) {
  Random random(5);
  EnsembleSearch search;
  EnsembleCounts counts;
  std::vector<Subset> searched, counted;
  int gave_way = 0, above_bound = 0, worse_than_prices = 0;
  for (int i = 0; i < 150; ++i) {
    const size_t models = 1 + random.below(4), queries = 1 + random.below(models == 4 ? 20 : 30);
    EnsembleProblem p = random_ensemble_problem(random, queries, models);
    if (i % 3 == 0) share_workers(random, p);
    const EnsembleTables tables = tables_of(p);
    counts.solve(tables, counted);
    const double best = utility_of(tables, counted);
    ASSERT_EQ(search.solve(tables, 0, kManySteps, searched), 0);
    ASSERT_NEAR(utility_of(tables, searched), best, 2e-9);
    const double within = 0.01 * double(queries);
    const double gap = search.solve(tables, within, kManySteps, searched);
    const double utility = utility_of(tables, searched);
    ASSERT_LE(gap, within);
    ASSERT_LE(best, utility + gap + 1e-9);
    ASSERT_LE(utility, best);
    ASSERT_GE(utility, best - within - 1e-9);
    gave_way += utility < best;
    EnsemblePrices prices;
    prices.fit(tables, kManySteps);
    ASSERT_NEAR(utility_of(tables, prices.subsets()), prices.utility(), 1e-9);
    above_bound += best > prices.bound() + 1e-9;
    worse_than_prices += best < prices.utility();
  }
  EXPECT_EQ(above_bound, 0);
  EXPECT_EQ(worse_than_prices, 0);
  EXPECT_LT(gave_way, 15);  // it rarely has to
}

// Far too many counts to look at: 64 queries of eight models, deadlines tens of tasks away.
TEST(EnsembleSearch, ManyModelsAndLateDeadlines) {
  Random random(6);
  EnsembleProblem p;
  for (size_t k = 0; k < 8; ++k) {
    p.models.push_back({"m" + std::to_string(k), ms(10 + double(random.below(50))), ms(5)});
  }
  for (size_t i = 0; i < 64; ++i) {
    EnsembleQuery q = {"q" + std::to_string(i), ms(60 + 900 * random.uniform())};
    q.utility.assign(256, 0.0);
    for (Subset s = 1; s < 256; ++s) q.utility[s] = random.uniform();
    p.queries.push_back(std::move(q));
  }
  EnsemblePlanner planner;
  const double greedy = planner.plan(p, EnsemblePolicy::kGreedyEdf).utility;
  const EnsemblePlan& plan = planner.plan(p, EnsemblePolicy::kDp);
  check_ensemble_plan(p, plan);
  EXPECT_GT(plan.utility, greedy);
  EnsemblePrices prices;
  prices.fit(tables_of(p), kManySteps);
  EXPECT_GE(plan.utility, prices.bound() - 64 * 0.02);
  const double first = plan.utility;
  EXPECT_EQ(planner.plan(p, EnsemblePolicy::kDp).utility, first);
}

// With ever fewer steps a plan stays possible, and its gap stays proven.
TEST(EnsembleSearch, FewStepsAreAllThatItTakes) {
  Random random(8);
  EnsembleSearch search;
  EnsembleCounts counts;
  std::vector<Subset> subsets;
  int inexact = 0;
  for (int i = 0; i < 100; ++i) {
    const size_t models = 1 + random.below(4), queries = 1 + random.below(models == 4 ? 20 : 30);
    EnsembleProblem p = random_ensemble_problem(random, queries, models);
    if (i % 3 == 0) share_workers(random, p);
    const EnsembleTables tables = tables_of(p);
    counts.solve(tables, subsets);
    const double best = utility_of(tables, subsets);
    for (const uint64_t steps : {1u, 100u, 10'000u}) {
      const double gap = search.solve(tables, 1e-9, steps, subsets);
      ASSERT_LE(best, utility_of(tables, subsets) + gap + 1e-9);
      inexact += gap > 0;
    }
  }
  EXPECT_GT(inexact, 50);
}

// 256 queries of eight models and 1000 of four: hours of work for all that could be looked at.
TEST(EnsembleSearch, EndsWhereTheBestPlanIsOutOfReach) {
  Random random(9);
  for (const auto& [queries, models] : {std::pair(256, 8), std::pair(1000, 4)}) {
    EnsembleProblem p;
    for (int k = 0; k < models; ++k) {
      p.models.push_back({"m" + std::to_string(k), ms(10 + double(random.below(50))), ms(5)});
    }
    for (int i = 0; i < queries; ++i) {
      EnsembleQuery q = {"q" + std::to_string(i), ms(60 + 10 * queries * random.uniform())};
      q.utility.assign(size_t{1} << models, 0.0);
      for (Subset s = 1; s < q.utility.size(); ++s) q.utility[s] = random.uniform();
      p.queries.push_back(std::move(q));
    }
    p.max_steps = 2'000'000;
    EnsemblePlanner planner;
    const double greedy = planner.plan(p, EnsemblePolicy::kGreedyEdf).utility;
    const EnsemblePlan& plan = planner.plan(p, EnsemblePolicy::kDp);
    check_ensemble_plan(p, plan);
    EXPECT_GT(plan.utility, greedy);
    EXPECT_GT(plan.gap, 0);
    EXPECT_LT(plan.gap, 0.05 * plan.utility);
  }
}

// Thousands that wait, which no table of counts would hold.
TEST(EnsembleSearch, AsManyQueriesAsThereMayBe) {
  Random random(7);
  EnsembleProblem p = random_ensemble_problem(random, EnsembleProblem::kMostQueries, 2);
  EnsemblePlanner planner;
  const EnsemblePlan& plan = planner.plan(p, EnsemblePolicy::kDp);
  check_ensemble_plan(p, plan);
  const double utility = plan.utility;
  EXPECT_GE(utility, planner.plan(p, EnsemblePolicy::kGreedyEdf).utility);
}

}  // namespace
}  // namespace fermata::plan
