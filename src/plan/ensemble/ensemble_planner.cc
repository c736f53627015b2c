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

constexpr double kMostWork = 16e6;  // of all counts: more would take much memory
constexpr double kSumsPerStep = 8;  // of counts; they are vectorised

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
  plan_.gap = 0;
  subsets_.assign(order_.size(), 0);
  worker_of_.clear();
  for (size_t k = 0; k < problem.models.size(); ++k) worker_of_.push_back(problem.worker_of(k));
  free_workers(problem);
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

void EnsemblePlanner::free_workers(const EnsembleProblem& problem) {
  free_at_.assign(problem.models.size(), Duration());
  for (size_t k = 0; k < problem.models.size(); ++k) {
    Duration& free_at = free_at_[worker_of_[k]];
    free_at = std::max(free_at, problem.models[k].busy);
  }
}

// When the last of its tasks ends, behind what has been placed.
Duration EnsemblePlanner::end_of(const EnsembleProblem& problem, Subset subset) const {
  std::array<Duration, EnsembleProblem::kMostModels> run = {};
  Duration end;
  for (; subset != 0; subset &= subset - 1) {
    const auto k = static_cast<size_t>(std::countr_zero(subset));
    const size_t worker = worker_of_[k];
    run[worker] += problem.models[k].latency;
    end = std::max(end, free_at_[worker] + run[worker]);
  }
  return end;
}

// A query's tasks are appended to those of its models.
void EnsemblePlanner::run(const EnsembleProblem& problem, size_t place, Subset subset) {
  subsets_[place] = subset;
  for (; subset != 0; subset &= subset - 1) {
    const auto k = static_cast<size_t>(std::countr_zero(subset));
    free_at_[worker_of_[k]] += problem.models[k].latency;
  }
}

void EnsemblePlanner::assign_best(const EnsembleProblem& problem) {
  tables_.build(problem, order_);
  if (tables_.best_alone(subsets_)) return;
  const double steps = static_cast<double>(problem.max_steps);
  if (EnsembleCounts::work(tables_) <= std::min(kMostWork, steps * kSumsPerStep)) {
    counts_.solve(tables_, subsets_);
  } else {
    const double within = problem.delta * static_cast<double>(order_.size());
    plan_.gap = search_.solve(tables_, within, problem.max_steps, subsets_);
  }
}

void EnsemblePlanner::assign_greedily(const EnsembleProblem& problem) {
  for (size_t i = 0; i < order_.size(); ++i) {
    const auto& utility = problem.queries[order_[i]].utility;
    const Duration deadline = problem.queries[order_[i]].deadline;
    Subset best = 0;
    for (Subset s = 1; s < utility.size(); ++s) {
      if (utility[s] < utility[best] || end_of(problem, s) > deadline) continue;
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
    const bool on_time = end_of(problem, all) <= problem.queries[order_[i]].deadline;
    if (on_time) run(problem, i, all);
  }
}

void EnsemblePlanner::assemble(const EnsembleProblem& problem) {
  plan_.utility = 0;
  plan_.plan.clear();
  plan_.unserved.clear();
  free_workers(problem);
  for (size_t i = 0; i < order_.size(); ++i) {
    const Subset subset = subsets_[i];
    if (subset == 0) {
      plan_.unserved.push_back(order_[i]);
      continue;
    }
    const Duration finish = end_of(problem, subset);
    run(problem, i, subset);
    plan_.utility += problem.queries[order_[i]].utility[subset];
    plan_.plan.push_back({order_[i], subset, finish});
  }
  std::sort(plan_.unserved.begin(), plan_.unserved.end());
}

}  // namespace fermata::plan
