// What the driver tells the one who observes it, if anybody does.
#include "base/clock.h"
#include "engine/schedule/driver_state.h"

namespace fermata::engine {

void Driver::observe_bound(const policy::Batch& batch, InFlight& running, Time now) {
  if (shared_.observer == nullptr) return;
  running.batch = next_id().value();
  observed_.clear();
  for (const policy::Task& task : batch.tasks) {
    const Part& part = parts_.at(task.job);
    observed_.push_back({part.job->id(), part.nominated});
  }
  shared_.observer->bound({.batch = running.batch,
                           .worker = shared_.first_worker + batch.worker.value(),
                           .model = running.variant->id,
                           .service = running.shares.front().job->route().counters->number(),
                           .items = batch.items,
                           .at = now,
                           .wanted = batch.wanted,
                           .start = batch.start,
                           .finish = batch.finish,
                           .rule = batch.rule,
                           .load = batch.load,
                           .members = observed_});
}

void Driver::observe_end(const InFlight& running, const BatchResult& result) const {
  if (shared_.observer == nullptr) return;
  shared_.observer->ended(Observer::BatchEnded{running.batch, result.started,
                                               result.started + result.total(), !running.all_good});
}

void Driver::observe_deaths(Executor& executor, uint32_t worker) const {
  if (shared_.observer == nullptr) return;
  executor.tell_deaths([observer = shared_.observer, number = shared_.first_worker + worker](
                           VariantId model, Time at, const std::string& cause) {
    observer->died({number, model, at, cause});
  });
}

void Driver::observe_load(const Worker& worker, VariantId variant, Time from) const {
  if (shared_.observer == nullptr) return;
  for (uint32_t i = 0; i < workers_.size(); ++i) {
    if (workers_[i].get() != &worker) continue;
    shared_.observer->loaded({shared_.first_worker + i, variant, from, monotonic_now()});
  }
}

}  // namespace fermata::engine
