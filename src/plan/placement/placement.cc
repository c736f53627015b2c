#include "plan/placement/placement.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/status.h"
#include "plan/placement/placement_exact.h"
#include "plan/placement/placement_levels.h"
#include "plan/placement/placement_search.h"

namespace fermata::plan {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr size_t kExactModels = 32;  // more have no chance to finish

struct Spread {
  double mean = 0, distance = 0, imbalance = 0;
};

Spread spread(const std::vector<double>& loads) {
  Spread s;
  for (double load : loads) s.mean += load;
  s.mean /= static_cast<double>(loads.size());
  if (s.mean <= 0) return s;
  const auto [least, most] = std::minmax_element(loads.begin(), loads.end());
  s.distance = std::max(*most - s.mean, s.mean - *least);
  s.imbalance = (*most - *least) / s.mean;
  return s;
}

bool within(double amount, double limit) { return amount <= limit * (1 + 1e-9); }

double cost_of(const PlacementModel& m, uint32_t bin) {
  if (!m.current) return m.change_cost;
  return *m.current == bin ? 0 : 2 * m.change_cost;
}

// A limit that no assignment can keep, seen without a search.
std::optional<Placement> infeasible(const PlacementProblem& p) {
  const auto because = [](PlacementLimit binding, std::string reason) {
    Placement none;
    none.exact = true;
    none.binding = binding;
    none.reason = std::move(reason);
    return none;
  };
  double rate = 0, memory = 0, first_loads = 0, dynamic = 0;
  for (const PlacementModel& m : p.models) {
    if (!within(m.rate_rps, p.max_rate_rps)) {
      return because(PlacementLimit::kRate, fmt::format("{} alone asks for {} rps, {} are allowed",
                                                        m.name, m.rate_rps, p.max_rate_rps));
    }
    if (!within(m.static_mb + m.dynamic_mb, p.memory_mb)) {
      return because(PlacementLimit::kMemory, fmt::format("{} alone needs {} MiB of {}", m.name,
                                                          m.static_mb + m.dynamic_mb, p.memory_mb));
    }
    rate += m.rate_rps;
    memory += m.static_mb;
    dynamic = std::max(dynamic, m.dynamic_mb);
    if (!m.current) first_loads += m.change_cost;
  }
  if (!within(rate, p.max_rate_rps * p.subclusters)) {
    return because(PlacementLimit::kRate, fmt::format("all models ask for {} rps, {} are allowed",
                                                      rate, p.max_rate_rps * p.subclusters));
  }
  if (!within(rate, p.max_scheduler_rate_rps * p.schedulers)) {
    return because(PlacementLimit::kSchedulerRate,
                   fmt::format("all models ask for {} rps, {} schedulers are allowed {} each", rate,
                               p.schedulers, p.max_scheduler_rate_rps));
  }
  if (!within(memory + dynamic, p.memory_mb * p.subclusters)) {
    return because(
        PlacementLimit::kMemory,
        fmt::format("all models need {} MiB of {}", memory + dynamic, p.memory_mb * p.subclusters));
  }
  if (!within(first_loads, p.max_change_cost)) {
    return because(
        PlacementLimit::kChangeCost,
        fmt::format("first loads alone cost {}, {} is allowed", first_loads, p.max_change_cost));
  }
  return std::nullopt;
}

Placement proven(Placement placement) {
  placement.exact = true;
  return placement;
}

// Small problems to the optimum where it is found soon, else what the search
// finds, which then bounds a second try.
Placement solve_level(const PlacementProblem& p, uint64_t steps) {
  const bool small = p.models.size() <= kExactModels;
  if (small) {
    const ExactPlacement all = exact_placement(p, kInfinity, steps / 4);
    if (all.finished && all.best) return proven(evaluate(p, *all.best));
    if (all.finished) return proven(evaluate(p, first_placement(p)));
  }
  Random random(p.seed);
  const uint64_t search_steps = small ? steps / 2 : steps;
  Placement best = evaluate(p, search_placement(p, first_placement(p), search_steps, random));
  if (!small) return best;
  const ExactPlacement better =
      exact_placement(p, best.feasible ? best.objective : kInfinity, steps / 4);
  if (better.best) best = evaluate(p, *better.best);
  best.exact = better.finished;
  return best;
}

Placement solve(const PlacementProblem& p, uint64_t steps) {
  if (p.schedulers == 1) return solve_level(p, steps);
  return evaluate(p, search_two_levels(p, steps, [](const PlacementProblem& level) {
                    return solve_level(level, level.max_steps);
                  }));
}

// Which limit would have to give: the first without which there is an answer.
PlacementLimit find_binding(const PlacementProblem& problem) {
  const uint64_t steps = problem.max_steps / 4;
  PlacementProblem relaxed = problem;
  relaxed.max_change_cost = kInfinity;
  if (std::isfinite(problem.max_change_cost) && solve(relaxed, steps).feasible) {
    return PlacementLimit::kChangeCost;
  }
  relaxed.memory_mb = kInfinity;
  if (solve(relaxed, steps).feasible) return PlacementLimit::kMemory;
  relaxed.max_scheduler_rate_rps = kInfinity;
  if (problem.schedulers > 1 && solve(relaxed, steps).feasible) {
    return PlacementLimit::kSchedulerRate;
  }
  return PlacementLimit::kRate;
}

std::string_view describe(PlacementLimit limit) {
  switch (limit) {
    case PlacementLimit::kChangeCost:
      return "the cost of change, without which there is one";
    case PlacementLimit::kMemory:
      return "the memory of a worker, without which there is one";
    default:
      return "the rate of a sub-cluster";
  }
}

}  // namespace

Placement evaluate(const PlacementProblem& problem, std::vector<uint32_t> assignment) {
  std::vector<double> rate(problem.subclusters), memory(rate), dynamic(rate);
  Placement result;
  for (size_t i = 0; i < assignment.size(); ++i) {
    const PlacementModel& m = problem.models[i];
    rate[assignment[i]] += m.rate_rps;
    memory[assignment[i]] += m.static_mb;
    dynamic[assignment[i]] = std::max(dynamic[assignment[i]], m.dynamic_mb);
    result.change_cost += cost_of(m, assignment[i]);
  }
  result.feasible = within(result.change_cost, problem.max_change_cost);
  const size_t share = problem.subclusters / problem.schedulers;
  for (size_t b = 0; b < rate.size(); b += share) {
    const double sum = std::accumulate(rate.begin() + b, rate.begin() + b + share, 0.0);
    result.feasible &= within(sum, problem.max_scheduler_rate_rps);
  }
  for (size_t b = 0; b < rate.size(); ++b) {
    result.feasible &=
        within(rate[b], problem.max_rate_rps) && within(memory[b] + dynamic[b], problem.memory_mb);
  }
  const Spread rates = spread(rate), memories = spread(memory);
  result.rate_spread = rates.distance;
  result.memory_spread = memories.distance;
  result.rate_imbalance = rates.imbalance;
  result.memory_imbalance = memories.imbalance;
  if (rates.mean > 0) result.objective += rates.distance / rates.mean;
  if (memories.mean > 0) result.objective += problem.weight * memories.distance / memories.mean;
  result.assignment = std::move(assignment);
  return result;
}

Placement place(const PlacementProblem& problem) {
  if (std::optional<Placement> none = infeasible(problem)) return *std::move(none);
  Placement best = solve(problem, problem.max_steps);
  if (best.feasible) return best;
  best.binding = find_binding(problem);
  best.reason = fmt::format("no assignment {}; what binds is {}",
                            best.exact ? "exists" : "was found", describe(best.binding));
  return best;
}

}  // namespace fermata::plan
