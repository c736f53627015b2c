#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include "plan/ensemble/ensemble_problem.h"

namespace fermata::bench {

// Algorithm 1 of Schemble as it is printed, to see what its table over quantised rewards costs
// beside the planner: cell u holds the time vectors of all ways to reward u, without those that
// another one dominates. Answers the reward that the best plan is sure of, u * delta; of the
// plans that reach it the table tells no better from worse, so `utility` is the first one's.
class PublishedTable {
 public:
  double utility = 0;
  size_t solutions = 0;  // kept, over all queries

  void plan(const plan::EnsembleProblem& p, double delta) {
    std::vector<uint32_t> order(p.queries.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return p.queries[a].deadline < p.queries[b].deadline;
    });
    cells_.assign(1, {Solution{}});
    for (size_t k = 0; k < p.models.size(); ++k) cells_[0][0].time[k] = p.models[k].busy.nanos();
    solutions = 0;
    for (const uint32_t q : order) extend(p, p.queries[q], delta);
    while (cells_.back().empty()) cells_.pop_back();
    utility = cells_.back()[0].utility;
  }

 private:
  struct Solution {
    std::array<int64_t, plan::EnsembleProblem::kMostModels> time = {};
    double utility = 0;
  };
  using Cell = std::vector<Solution>;

  void extend(const plan::EnsembleProblem& p, const plan::EnsembleQuery& query, double delta) {
    // One query's reward is at most 1.
    std::vector<Cell> next(cells_.size() + static_cast<size_t>(1 / delta + 1e-9));
    for (size_t u = 0; u < cells_.size(); ++u) {
      for (const Solution& before : cells_[u]) {
        insert(next[u], before);
        for (plan::Subset s = 1; s < query.utility.size(); ++s) {
          Solution after = before;
          if (!run(p, query, s, after)) continue;
          after.utility += query.utility[s];
          insert(next[u + static_cast<size_t>(query.utility[s] / delta + 1e-9)], after);
        }
      }
    }
    cells_ = std::move(next);
    for (const Cell& cell : cells_) solutions += cell.size();
  }

  static bool run(const plan::EnsembleProblem& p, const plan::EnsembleQuery& query, plan::Subset s,
                  Solution& solution) {
    for (size_t k = 0; k < p.models.size(); ++k) {
      if ((s >> k & 1) == 0) continue;
      solution.time[k] += p.models[k].latency.nanos();
      if (solution.time[k] > query.deadline.nanos()) return false;
    }
    return true;
  }

  static bool dominates(const Solution& a, const Solution& b) {
    for (size_t k = 0; k < a.time.size(); ++k) {
      if (a.time[k] > b.time[k]) return false;
    }
    return true;
  }

  static void insert(Cell& cell, const Solution& solution) {
    for (const Solution& other : cell) {
      if (dominates(other, solution)) return;
    }
    std::erase_if(cell, [&](const Solution& other) { return dominates(solution, other); });
    cell.push_back(solution);
  }

  std::vector<Cell> cells_;
};

}  // namespace fermata::bench
