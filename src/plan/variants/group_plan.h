#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "plan/variants/group_tables.h"
#include "plan/variants/residency.h"

namespace fermata::plan {

// Requests that follow each other on a worker with one variant: order[first, first + count)
// of the plan, in batches of at most the variant's max_batch.
struct GroupRun {
  uint32_t worker = 0, service = 0, variant = 0;
  uint32_t first = 0, count = 0;
};

// What a policy decided; when everything happens follows from it.
struct GroupPlan {
  std::vector<GroupRun> runs;  // by worker, each in the order in which it runs them
  std::vector<uint32_t> order;
  std::vector<uint32_t> short_circuited;

  void clear();
};

// Where a policy stands on each worker while it plans run after run.
struct PlannedWorker {
  Time free;
  Residency residency;

  void reset(const GroupProblem& problem, uint32_t worker);
};

// What a policy chose for one group or request.
struct GroupChoice {
  static constexpr uint32_t kShortCircuit = std::numeric_limits<uint32_t>::max();
  uint32_t subject = 0;  // the group or the request
  uint32_t variant = 0;
  uint32_t worker = kShortCircuit;
  double value = 0;  // what the policy maximised
};

// A schedule out of a plan: batches, loads and evictions, times, utility.
class GroupTimeline {
 public:
  // O(requests + runs * loaded models).
  void fill(const GroupTables& tables, const GroupPlan& plan, GroupSchedule& out);

 private:
  void run(const GroupTables& tables, const GroupRun& run, GroupSchedule& out);
  PlannedWorker worker_;
  std::vector<double> utility_;  // by request
};

}  // namespace fermata::plan
