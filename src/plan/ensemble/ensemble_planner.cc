#include "plan/ensemble/ensemble_planner.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <tuple>

namespace fermata::plan {
namespace {

constexpr std::array<std::string_view, 5> kPolicyNames = {"dp", "greedy-edf", "greedy-fifo",
                                                          "greedy-sjf", "original"};

constexpr double kMostWork = 16e6;  // of all counts, some milliseconds

Duration time_of(const EnsembleProblem& problem, Subset subset) {
  Duration time;
  for (; subset != 0; subset &= subset - 1) {
    time += problem.models[static_cast<size_t>(std::countr_zero(subset))].latency;
  }
  return time;
}

}  // namespace

std::span<const std::string_view> ensemble_policy_names() { return kPolicyNames; }

const EnsemblePlan& EnsemblePlanner::plan(const EnsembleProblem& problem, EnsemblePolicy policy) {
  order_queries(problem, policy);
  subsets_.assign(order_.size(), 0);
  free_at_.clear();
  for (const EnsembleModel& m : problem.models) free_at_.push_back(m.busy);
  if (policy == EnsemblePolicy::kDp) {
    assign_best(problem);
  } else if (policy == EnsemblePolicy::kOriginal) {
    assign_all(problem);
  } else {
    assign_greedily(problem);
  }
  assemble(problem);
  return plan_;
}

void EnsemblePlanner::order_queries(const EnsembleProblem& problem, EnsemblePolicy policy) {
  order_.resize(problem.queries.size());
  std::iota(order_.begin(), order_.end(), 0);
  const auto order_by = [&](auto key) {
    std::sort(order_.begin(), order_.end(), [&](uint32_t a, uint32_t b) {
      return std::tuple(key(problem.queries[a]), a) < std::tuple(key(problem.queries[b]), b);
    });
  };
  switch (policy) {
    case EnsemblePolicy::kDp:
    case EnsemblePolicy::kGreedyEdf:
      return order_by([](const EnsembleQuery& q) { return q.deadline; });
    case EnsemblePolicy::kGreedySjf:
      return order_by([](const EnsembleQuery& q) { return q.difficulty; });
    default:
      return order_by([](const EnsembleQuery& q) { return q.arrival; });
  }
}

bool EnsemblePlanner::on_time(const EnsembleProblem& problem, uint32_t query, Subset subset) const {
  const Duration deadline = problem.queries[query].deadline;
  for (; subset != 0; subset &= subset - 1) {
    const auto k = static_cast<size_t>(std::countr_zero(subset));
    if (free_at_[k] + problem.models[k].latency > deadline) return false;
  }
  return true;
}

// A query's tasks are appended to those of its models.
void EnsemblePlanner::run(const EnsembleProblem& problem, size_t place, Subset subset) {
  subsets_[place] = subset;
  for (; subset != 0; subset &= subset - 1) {
    const auto k = static_cast<size_t>(std::countr_zero(subset));
    free_at_[k] += problem.models[k].latency;
  }
}

void EnsemblePlanner::assign_best(const EnsembleProblem& problem) {
  tables_.build(problem, order_);
  if (tables_.best_alone(subsets_)) return;
  if (EnsembleCounts::work(tables_) <= kMostWork) {
    counts_.solve(tables_, subsets_);
  } else {
    search_.solve(tables_, problem.delta * static_cast<double>(order_.size()), subsets_);
  }
}

void EnsemblePlanner::assign_greedily(const EnsembleProblem& problem) {
  for (size_t i = 0; i < order_.size(); ++i) {
    const auto& utility = problem.queries[order_[i]].utility;
    Subset best = 0;
    for (Subset s = 1; s < utility.size(); ++s) {
      if (utility[s] < utility[best] || !on_time(problem, order_[i], s)) continue;
      const bool better =
          utility[s] > utility[best] || time_of(problem, s) < time_of(problem, best);
      if (better) best = s;
    }
    run(problem, i, best);
  }
}

void EnsemblePlanner::assign_all(const EnsembleProblem& problem) {
  const auto all = static_cast<Subset>((Subset{1} << problem.models.size()) - 1);
  for (size_t i = 0; i < order_.size(); ++i) {
    if (on_time(problem, order_[i], all)) run(problem, i, all);
  }
}

void EnsemblePlanner::assemble(const EnsembleProblem& problem) {
  plan_.utility = 0;
  plan_.plan.clear();
  plan_.unserved.clear();
  for (size_t k = 0; k < free_at_.size(); ++k) free_at_[k] = problem.models[k].busy;
  for (size_t i = 0; i < order_.size(); ++i) {
    const Subset subset = subsets_[i];
    if (subset == 0) {
      plan_.unserved.push_back(order_[i]);
      continue;
    }
    run(problem, i, subset);
    Duration finish;
    for (Subset rest = subset; rest != 0; rest &= rest - 1) {
      finish = std::max(finish, free_at_[static_cast<size_t>(std::countr_zero(rest))]);
    }
    plan_.utility += problem.queries[order_[i]].utility[subset];
    plan_.plan.push_back({order_[i], subset, finish});
  }
  std::sort(plan_.unserved.begin(), plan_.unserved.end());
}

}  // namespace fermata::plan
