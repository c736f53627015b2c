#include "plan/placement/epoch.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/status.h"
#include "plan/placement/placement_levels.h"

namespace fermata::plan {
namespace {

double need(const PlacementModel& m) { return m.static_mb + m.dynamic_mb; }

bool gains(const Placement& before, const Placement& after, double more_than) {
  return before.objective - after.objective > more_than + kRounding;
}

void leave_out(PlacementProblem& problem, size_t index, std::string reason, EpochPlan& plan) {
  plan.left_out.push_back({problem.models[index].name, std::move(reason)});
  problem.models.erase(problem.models.begin() + static_cast<std::ptrdiff_t>(index));
}

void leave_out_giants(PlacementProblem& problem, EpochPlan& plan) {
  for (size_t i = problem.models.size(); i-- > 0;) {
    const PlacementModel& m = problem.models[i];
    if (m.current || need(m) <= problem.memory_mb) continue;
    leave_out(problem, i,
              fmt::format("no room: it needs {:.0f} MiB, a worker has {:.0f} MiB", need(m),
                          problem.memory_mb),
              plan);
  }
}

// False: there is none without a place.
bool leave_out_largest(PlacementProblem& problem, EpochPlan& plan) {
  size_t largest = problem.models.size();
  for (size_t i = 0; i < problem.models.size(); ++i) {
    const PlacementModel& m = problem.models[i];
    if (m.current) continue;
    if (largest == problem.models.size() || need(m) >= need(problem.models[largest])) largest = i;
  }
  if (largest == problem.models.size()) return false;
  leave_out(
      problem, largest,
      fmt::format("no room: it needs {:.0f} MiB of a worker's {:.0f} MiB beside the other models",
                  need(problem.models[largest]), problem.memory_mb),
      plan);
  return true;
}

double total_rate(const PlacementProblem& problem) {
  return std::accumulate(problem.models.begin(), problem.models.end(), 0.0,
                         [](double sum, const PlacementModel& m) { return sum + m.rate_rps; });
}

bool any(const PlacementProblem& problem, bool placed) {
  return std::any_of(problem.models.begin(), problem.models.end(),
                     [&](const PlacementModel& m) { return m.current.has_value() == placed; });
}

void stay_if_moving_gains_little(double min_gain, EpochPlan& plan) {
  const EpochPlan::Step& step = plan.steps.back();
  std::vector<uint32_t> now;
  for (const PlacementModel& m : step.problem.models) now.push_back(*m.current);
  const Placement staying = evaluate(step.problem, std::move(now));
  plan.stay = staying.feasible && !gains(staying, step.answer, min_gain);
}

// The first loads alone, if what moves besides gains too little.
void move_nothing_for_little(double min_gain, EpochPlan& plan) {
  EpochPlan::Step quiet = plan.steps.back();
  quiet.problem.max_change_cost = first_loads(quiet.problem);
  quiet.answer = place(quiet.problem);
  const bool enough =
      !quiet.answer.feasible || gains(quiet.answer, plan.steps.back().answer, min_gain);
  plan.steps.insert(enough ? plan.steps.end() - 1 : plan.steps.end(), std::move(quiet));
}

void settle(double min_gain, EpochPlan& plan) {
  const EpochPlan::Step& step = plan.steps.back();
  if (!any(step.problem, false)) {
    stay_if_moving_gains_little(min_gain, plan);
  } else if (any(step.problem, true) && step.problem.max_change_cost > first_loads(step.problem)) {
    move_nothing_for_little(min_gain, plan);
  }
}

}  // namespace

EpochPlan plan_epoch(PlacementProblem problem, double min_gain) {
  EpochPlan plan;
  const double moves = problem.max_change_cost;
  leave_out_giants(problem, plan);
  while (!problem.models.empty()) {
    problem.max_change_cost = moves + first_loads(problem);
    plan.steps.push_back({problem, place(problem)});
    const Placement& answer = plan.steps.back().answer;
    if (answer.feasible) {
      settle(min_gain, plan);
      break;
    }
    const double demand = total_rate(problem);
    if (answer.binding == PlacementLimit::kRate && problem.max_rate_rps < demand) {
      problem.max_rate_rps = demand;
    } else if (!leave_out_largest(problem, plan)) {
      break;
    }
  }
  return plan;
}

uint32_t fewest_subclusters(PlacementProblem problem, uint32_t most) {
  double resident = 0;
  problem.max_change_cost = std::numeric_limits<double>::infinity();
  std::erase_if(problem.models, [&](const auto& m) { return need(m) > problem.memory_mb; });
  for (PlacementModel& m : problem.models) {
    m.current.reset();
    m.rate_rps = 0;
    resident += m.static_mb;
  }
  const double least = std::ceil(resident / problem.memory_mb * (1 - kRounding));
  if (problem.models.empty()) return 1;
  problem.subclusters = static_cast<uint32_t>(std::clamp(least, 1.0, double{1} * most));
  while (problem.subclusters < most && !place(problem).feasible) ++problem.subclusters;
  return problem.subclusters;
}

}  // namespace fermata::plan
