#include "plan/placement/placement_levels.h"

#include <algorithm>

namespace fermata::plan {
namespace {

PlacementProblem upper_level(const PlacementProblem& problem, uint32_t share, uint64_t steps) {
  PlacementProblem upper = problem;
  upper.subclusters = problem.schedulers;
  upper.schedulers = 1;
  upper.max_rate_rps = std::min(problem.max_scheduler_rate_rps, share * problem.max_rate_rps);
  upper.max_scheduler_rate_rps = PlacementProblem().max_scheduler_rate_rps;
  upper.memory_mb = share * problem.memory_mb;
  upper.max_steps = steps;
  const double mandatory = first_loads(problem);
  upper.max_change_cost = mandatory + (problem.max_change_cost - mandatory) / 2;
  for (PlacementModel& m : upper.models) {
    if (m.current) m.current = *m.current / share;
  }
  return upper;
}

// The models of one scheduler. Who comes from another pays the second half of
// its move here, as a first load.
PlacementProblem lower_level(const PlacementProblem& problem, uint32_t scheduler, uint32_t share,
                             const std::vector<uint32_t>& members, uint64_t steps) {
  PlacementProblem lower = problem;
  lower.subclusters = share;
  lower.schedulers = 1;
  lower.max_scheduler_rate_rps = PlacementProblem().max_scheduler_rate_rps;
  lower.max_steps = steps;
  lower.models.clear();
  for (uint32_t i : members) {
    PlacementModel m = problem.models[i];
    if (m.current) {
      const bool stays = *m.current / share == scheduler;
      m.current = stays ? std::optional(*m.current % share) : std::nullopt;
    }
    lower.models.push_back(std::move(m));
  }
  return lower;
}

}  // namespace

double first_loads(const PlacementProblem& problem) {
  double cost = 0;
  for (const PlacementModel& m : problem.models) cost += m.current ? 0 : m.change_cost;
  return cost;
}

std::vector<uint32_t> search_two_levels(
    const PlacementProblem& problem, uint64_t steps,
    absl::FunctionRef<Placement(const PlacementProblem&)> solve) {
  const uint32_t share = problem.subclusters / problem.schedulers;
  const Placement upper = solve(upper_level(problem, share, steps / 4));
  std::vector<std::vector<uint32_t>> members(problem.schedulers);
  for (uint32_t i = 0; i < upper.assignment.size(); ++i) members[upper.assignment[i]].push_back(i);
  double left = problem.max_change_cost - upper.change_cost;
  std::vector<uint32_t> assignment(problem.models.size());
  for (uint32_t s = 0; s < problem.schedulers; ++s) {
    const uint64_t lower_steps = steps * 3 / 4 / problem.schedulers;
    PlacementProblem lower = lower_level(problem, s, share, members[s], lower_steps);
    const double paid = first_loads(lower);
    lower.max_change_cost = paid + std::max(0.0, left) / (problem.schedulers - s);
    const Placement placed = solve(lower);
    left -= placed.change_cost - paid;
    for (size_t i = 0; i < members[s].size(); ++i) {
      assignment[members[s][i]] = s * share + placed.assignment[i];
    }
  }
  return assignment;
}

}  // namespace fermata::plan
