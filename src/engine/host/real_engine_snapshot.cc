// What the engine says of itself.
#include <algorithm>

#include "engine/host/real_engine.h"
#include "model/repository.h"

namespace fermata::engine {

std::vector<ModelStatus> RealEngine::index() const {
  std::map<std::string, ModelStatus> troubled;
  {
    const std::lock_guard lock(mutex_);
    troubled = troubled_;
  }
  std::vector<ModelStatus> rows;
  std::map<std::string, bool> listed;
  for (const auto& service : routes_.read()->catalog->services) {
    for (const auto& variant : service->versions) {
      rows.push_back({service->name, variant->version, ModelState::kReady, ""});
      listed[service->name] = true;
    }
    if (service->trouble.empty()) continue;
    rows.push_back({service->name, "", ModelState::kUnavailable, service->trouble});
    listed[service->name] = true;
  }
  for (const auto& [name, status] : troubled) {
    if (!listed[name]) rows.push_back(status);
    listed[name] = true;
  }
  if (const auto names = model_names(options_.repository); names.ok()) {
    for (const std::string& name : *names) {
      if (!listed[name]) rows.push_back({name, "", ModelState::kUnavailable, "not loaded"});
    }
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.name < b.name; });
  return rows;
}

EngineSnapshot RealEngine::snapshot() const {
  EngineSnapshot snapshot;
  snapshot.now = now();
  snapshot.started = started_;
  snapshot.policy = options_.policy;
  snapshot.placement = log_.snapshot();
  {
    const std::lock_guard lock(mutex_);
    snapshot.services = registry_.statistics();
    snapshot.autoscale = autoscale_;
    for (const auto& [model, loaded] : registry_.loaded()) {
      if (!loaded.variants.empty()) {
        snapshot.placement.subcluster_of[model] = loaded.subcluster;
      }
    }
  }
  for (const WorkerType& type : options_.workers.types) snapshot.worker_types.push_back(type.name);
  snapshot.workers = pool_->worker_statistics();
  snapshot.subclusters = pool_->subcluster_statistics();
  snapshot.control_delay = pool_->control_delay();
  snapshot.batch_keys = pool_->batch_keys();
  return snapshot;
}

void RealEngine::close_window() {
  const PoolTotals totals = totals_of(snapshot());
  const AutoscaleSignal signal = signal_between(window_start_, totals, options_.workers.count());
  window_start_ = totals;
  const std::lock_guard lock(mutex_);
  autoscale_ = signal;
}

}  // namespace fermata::engine
