#pragma once

#include "policy/group_planner.h"
#include "policy/lookahead.h"

namespace fermata::policy {

// The planner that a problem asks for, as documents name it.
class AnyGroupPlanner {
 public:
  // Valid until the next call.
  const GroupSchedule& plan(const GroupProblem& problem) {
    return problem.policy == GroupPolicy::kFermata ? lookahead_.plan(problem)
                                                   : published_.plan(problem);
  }

 private:
  GroupPlanner published_;
  LookaheadPlanner lookahead_;
};

}  // namespace fermata::policy
