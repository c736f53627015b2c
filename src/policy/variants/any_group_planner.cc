#include "policy/variants/any_group_planner.h"

namespace fermata::policy {

const plan::GroupSchedule& AnyGroupPlanner::plan(const plan::GroupProblem& problem) {
  if (problem.policy != plan::GroupPolicy::kFermata) return published_.plan(problem);
  best_ = lookahead_.plan(problem);
  if (!problem.expected.empty()) return best_;
  // Believing the same, so that what they are worth can be compared.
  plan::GroupProblem candidate = problem;
  candidate.data_aware = problem.data_aware.value_or(true);
  candidate.short_circuit = problem.short_circuit.value_or(true);
  uint64_t steps = 0;
  for (size_t policy = 0; policy < plan::published_group_policy_names().size(); ++policy) {
    candidate.policy = static_cast<plan::GroupPolicy>(policy);
    const plan::GroupSchedule& plan = published_.plan(candidate);
    steps += plan.steps;
    if (plan.feasible && plan.utility > best_.utility) best_ = plan;
  }
  best_.exact = false;
  best_.steps = steps;
  return best_;
}

}  // namespace fermata::policy
