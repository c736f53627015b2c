#pragma once

#include <vector>

#include "plan/ensemble/ensemble_counts.h"
#include "plan/ensemble/ensemble_problem.h"
#include "plan/ensemble/ensemble_search.h"
#include "plan/ensemble/ensemble_tables.h"

namespace fermata::plan {

// Task scheduling for the queries of an ensemble that wait (Schemble, section VI). Pure and
// deterministic. Keeps its memory, so that a planner that has seen a problem of some size
// allocates nothing for the next one. The greedy policies are O(queries * (2^models + log
// queries)). One thread at a time.
class EnsemblePlanner {
 public:
  // Valid until the next call. The problem must keep what ensemble_problem.h says;
  // read_ensemble_task() sees to it for documents. Every query is in `plan` or in `unserved`.
  // Under kDp no plan, of any order and any choice of subsets, is worth more by above the plan's
  // gap. That is 0 where few sums tell (64 queries of three models, whose deadlines are 20 tasks
  // away), and at most queries * delta unless max_steps end the search before. O(max_steps), and
  // O(queries * 2^models). Equal utilities: less time of all models, then the problem's order;
  // where not all plans were compared, that of those which were.
  const EnsemblePlan& plan(const EnsembleProblem& problem, EnsemblePolicy policy);

 private:
  void order_queries(const EnsembleProblem& problem, EnsemblePolicy policy);
  void assign_best(const EnsembleProblem& problem);
  void assign_greedily(const EnsembleProblem& problem);
  void assign_all(const EnsembleProblem& problem);
  void free_workers(const EnsembleProblem& problem);
  Duration end_of(const EnsembleProblem& problem, Subset subset) const;
  void run(const EnsembleProblem& problem, size_t place, Subset subset);
  void assemble(const EnsembleProblem& problem);

  std::vector<uint32_t> order_;    // queries, as they are executed
  std::vector<Subset> subsets_;    // by place in order_
  std::vector<size_t> worker_of_;  // by model
  std::vector<Duration> free_at_;  // by worker, after what has been placed
  EnsembleTables tables_;
  EnsembleCounts counts_;
  EnsembleSearch search_;
  EnsemblePlan plan_;
};

}  // namespace fermata::plan
