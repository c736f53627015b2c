#pragma once

#include "plan/variants/group_planner.h"
#include "policy/variants/variants_lookahead.h"

namespace fermata::policy {

// The planner that a problem asks for, as documents name it. Where the default plans and nothing is
// known of what will come, it takes a published plan that is worth more than its own.
class AnyGroupPlanner {
 public:
  // Valid until the next call.
  const plan::GroupSchedule& plan(const plan::GroupProblem& problem);

 private:
  plan::GroupPlanner published_;
  VariantsLookahead lookahead_;
  plan::GroupSchedule best_;
};

}  // namespace fermata::policy
