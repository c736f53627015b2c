#pragma once

#include <vector>

#include "plan/variants/group_plan.h"
#include "plan/variants/group_problem.h"
#include "plan/variants/group_runs.h"
#include "plan/variants/group_search.h"
#include "plan/variants/local_choice.h"

namespace fermata::plan {

// Model selection and scheduling for the requests that wait (SneakPeek, sections 5
// and 7), by any of the published policies. Pure and deterministic. Keeps its
// memory, so that a planner that has seen a problem of some size allocates nothing
// for the next one. Up to tau groups exponential in the groups, else
// O(requests * (variants * (classes + workers) + log requests)). One thread at a time.
class GroupPlanner {
 public:
  // Valid until the next call. The problem must keep what group_problem.h says;
  // read_group_problem() sees to it for documents. Every request is in it exactly once,
  // served or short-circuited, unless it is infeasible.
  const GroupSchedule& plan(const GroupProblem& problem);

 private:
  bool plan_groups();
  bool plan_requests();
  bool choose_for_group(uint32_t group, GroupChoice& choice);
  bool choose_for_request(uint32_t request, GroupChoice& choice);
  GroupValue value_of_choices() const;
  void assemble_groups();
  void assemble_requests();
  void sort_choices_by_worker();

  GroupTables tables_;
  GroupRuns runs_;
  LocalChoice local_;
  GroupSearch search_;
  std::vector<uint32_t> ranked_;  // groups or requests in the order in which they choose
  std::vector<GroupChoice> choices_;
  GroupPlan plan_;
  GroupTimeline timeline_;
  GroupSchedule schedule_;
};

}  // namespace fermata::plan
