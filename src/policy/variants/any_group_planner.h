#pragma once

#include "plan/variants/group_planner.h"
#include "policy/variants/variants_lookahead.h"

namespace fermata::policy {

// The planner that a problem asks for, as documents name it.
class AnyGroupPlanner {
 public:
  // Valid until the next call.
  const plan::GroupSchedule& plan(const plan::GroupProblem& problem) {
    return problem.policy == plan::GroupPolicy::kFermata ? lookahead_.plan(problem)
                                                         : published_.plan(problem);
  }

 private:
  plan::GroupPlanner published_;
  VariantsLookahead lookahead_;
};

}  // namespace fermata::policy
