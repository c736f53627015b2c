#include <functional>
#include <numeric>

#include "plan/ensemble_fixture.h"

namespace fermata::plan {
namespace {

// The most utility of all choices of subsets, run in this order: a depth-first search that
// knows nothing of the planner, and turns back where even the best for all that are left would
// not help.
double best_in_order(const EnsembleProblem& p, const std::vector<uint32_t>& order) {
  std::vector<double> left(order.size() + 1);
  for (size_t i = order.size(); i-- > 0;) {
    const auto& utility = p.queries[order[i]].utility;
    left[i] = left[i + 1] + *std::max_element(utility.begin(), utility.end());
  }
  double best = 0;
  std::vector<Duration> free;
  for (size_t k = 0; k < p.models.size(); ++k) {
    free.push_back(p.models[k].busy);
    free[p.worker_of(k)] = std::max(free[p.worker_of(k)], p.models[k].busy);
  }
  const std::function<void(size_t, double)> choose = [&](size_t i, double sum) {
    best = std::max(best, sum);
    if (i == order.size() || sum + left[i] <= best) return;
    const EnsembleQuery& q = p.queries[order[i]];
    for (Subset s = 0; s < q.utility.size(); ++s) {
      const std::vector<Duration> before = free;
      bool on_time = true;
      for (size_t k = 0; k < p.models.size(); ++k) {
        if ((s >> k & 1) == 0) continue;
        Duration& end = free[p.worker_of(k)];
        end += p.models[k].latency;
        on_time = on_time && end <= q.deadline;
      }
      if (on_time) choose(i + 1, sum + q.utility[s]);
      free = before;
    }
  };
  choose(0, 0);
  return best;
}

double best_by_deadline(const EnsembleProblem& p) {
  std::vector<uint32_t> order(p.queries.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return p.queries[a].deadline < p.queries[b].deadline;
  });
  return best_in_order(p, order);
}

// The most utility where every model has an order of its own: all choices of subsets, all
// permutations of the queries for each model.
double best_of_all_orders(const EnsembleProblem& p) {
  const size_t n = p.queries.size();
  std::vector<Subset> subsets(n);
  // Whether this model can run its tasks so that those of `late` end too late and no others.
  const auto on_time = [&](size_t k) {
    std::vector<uint32_t> tasks;
    for (uint32_t i = 0; i < n; ++i) {
      if (subsets[i] >> k & 1) tasks.push_back(i);
    }
    do {
      Duration free = p.models[k].busy;
      bool good = true;
      for (const uint32_t i : tasks) {
        free += p.models[k].latency;
        good = good && free <= p.queries[i].deadline;
      }
      if (good) return true;
    } while (std::next_permutation(tasks.begin(), tasks.end()));
    return false;
  };
  double best = 0;
  const std::function<void(size_t, double)> choose = [&](size_t i, double utility) {
    if (i == n) {
      bool good = utility > best;
      for (size_t k = 0; good && k < p.models.size(); ++k) good = on_time(k);
      if (good) best = utility;
      return;
    }
    for (subsets[i] = 0; subsets[i] < p.queries[i].utility.size(); ++subsets[i]) {
      choose(i + 1, utility + p.queries[i].utility[subsets[i]]);
    }
  };
  choose(0, 0);
  return best;
}

TEST(EnsembleExact, IsTheBestOfAllChoices) {
  Random random(7);
  EnsemblePlanner planner;
  int tight = 0, better_than_greedy = 0;
  for (int i = 0; i < 2000; ++i) {
    const size_t models = 1 + random.below(4);
    EnsembleProblem p = random_ensemble_problem(random, 1 + random.below(6), models);
    if (i % 2 == 0) share_workers(random, p);
    const double best = best_by_deadline(p);
    const EnsemblePlan& plan = planner.plan(p, EnsemblePolicy::kDp);
    check_ensemble_plan(p, plan);
    ASSERT_NEAR(plan.utility, best, 1e-9);
    tight += !plan.unserved.empty();
    const EnsemblePlan& greedy = planner.plan(p, EnsemblePolicy::kGreedyEdf);
    check_ensemble_plan(p, greedy);
    EXPECT_LE(greedy.utility, best + 1e-9);
    better_than_greedy += greedy.utility < best - 1e-9;
  }
  EXPECT_GT(tight, 100);
  EXPECT_GT(better_than_greedy, 60);
}

TEST(EnsembleExact, NoOrderOfTheTasksIsBetter) {
  Random random(8);
  EnsemblePlanner planner;
  for (int i = 0; i < 300; ++i) {
    const EnsembleProblem p =
        random_ensemble_problem(random, 1 + random.below(4), 1 + random.below(3));
    ASSERT_NEAR(planner.plan(p, EnsemblePolicy::kDp).utility, best_of_all_orders(p), 1e-9);
  }
}

}  // namespace
}  // namespace fermata::plan
