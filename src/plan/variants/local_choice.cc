#include "plan/variants/local_choice.h"

namespace fermata::plan {

void LocalChoice::reset(const GroupTables& tables) {
  problem_ = &tables.problem();
  const size_t workers = problem_->workers.size();
  if (workers_.size() < workers) workers_.resize(workers);
  for (uint32_t w = 0; w < workers; ++w) workers_[w].reset(*problem_, w);
  busy_ = Duration();
  last_finish_ = problem_->now;
}

void LocalChoice::take(const Place& place, uint32_t model) {
  PlannedWorker& worker = workers_[place.worker];
  worker.residency.use(model);
  worker.free = place.finish;
  busy_ += place.load + place.run;
  last_finish_ = std::max(last_finish_, place.finish);
}

}  // namespace fermata::plan
