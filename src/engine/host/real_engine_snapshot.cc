// What the engine says of itself.
#include <algorithm>

#include "absl/algorithm/container.h"
#include "engine/execute/run_watch.h"
#include "engine/host/dependents.h"
#include "engine/host/real_engine.h"

namespace fermata::engine {
namespace {
constexpr uint32_t kMostServers = 10;  // that one server asks for, itself among them
}

std::vector<ModelStatus> RealEngine::index() const {
  std::map<std::string, ModelStatus> troubled;
  {
    const std::lock_guard lock(mutex_);
    troubled = troubled_;
  }
  std::vector<ModelStatus> rows;
  std::map<std::string, bool> listed;
  for (const auto& service : routes_.read()->catalog->services) {
    const auto trouble = troubled.find(service->model);
    const bool failed =
        trouble != troubled.end() && trouble->second.state == ModelState::kUnavailable;
    const std::string reason =
        failed ? "served as before, since the last load failed: " + trouble->second.reason : "";
    for (const auto& variant : service->versions) {
      rows.push_back({service->name, variant->version, ModelState::kReady, reason});
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
  if (const auto names = models_in_repository(options_); names.ok()) {
    for (const std::string& name : *names) {
      if (!listed[name]) rows.push_back({name, "", ModelState::kUnavailable, "not loaded"});
    }
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.name < b.name; });
  return rows;
}

ServedModels RealEngine::models() const {
  const std::lock_guard lock(mutex_);
  return registry_.loaded();
}

std::vector<ModelStatus> RealEngine::unserved() const {
  const auto catalog = routes_.read()->catalog;
  std::vector<ModelStatus> rows;
  std::set<std::string> unwanted;  // and what needs it
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [model, wanted] : wanted_) {
      const auto loaded = registry_.loaded().find(model);
      if (!wanted) {
        unwanted.insert(model);
      } else if (loaded == registry_.loaded().end() || loaded->second.variants.empty()) {
        const auto why = troubled_.find(model);
        rows.push_back(why == troubled_.end()
                           ? ModelStatus{model, "", ModelState::kUnavailable, "not loaded"}
                           : why->second);
      }
    }
  }
  if (options_.workers.all_remote() &&
      absl::c_none_of(pool_->worker_statistics(), [](const auto& w) { return w.serving; })) {
    rows.push_back({"workers", "", ModelState::kUnavailable, "no host has brought any yet"});
  }
  add_dependents(unwanted, options_.services, stream_options_);
  for (const auto& service : catalog->services) {
    if (service->trouble.empty() || unwanted.contains(service->name)) continue;
    rows.push_back({service->name, "", ModelState::kUnavailable, service->trouble});
  }
  return rows;
}

std::string RealEngine::why_failing(const Variant& variant) const {
  for (const auto& executors : executors_) {
    if (std::string why = executors->why_away(variant); !why.empty()) return why;
  }
  if (!is_given_up(variant)) return {};
  return "runs of it were given up and go on, so that a worker runs it no more: load it again";
}

EngineSnapshot RealEngine::snapshot() const {
  EngineSnapshot snapshot;
  snapshot.now = now();
  snapshot.started = started_;
  snapshot.policy = options_.policy;
  snapshot.placement = log_.snapshot();
  const auto add_processes = [&](const ExecutorFactory& executors) {
    for (ProcessStatistics& one : executors.processes()) {
      snapshot.processes.push_back(std::move(one));
    }
  };
  for (const auto& executors : executors_) add_processes(*executors);
  if (own_helpers_ != nullptr) add_processes(*own_helpers_);
  {
    const std::lock_guard lock(mutex_);
    // A model is among these before its processes go: what they say is read first.
    for (ProcessStatistics& one : snapshot.processes) {
      one.quarantined = one.quarantined || quarantined_.contains(one.model);
    }
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
  if (options_.workers.remote != nullptr) snapshot.cluster = options_.workers.remote->statistics();
  const bool stands_by = options_.inputs_elsewhere && snapshot.cluster.epoch == 0;
  if (stands_by) {  // the active one knows how many workers are wanted
    for (auto& [type, wanted] : snapshot.autoscale.wanted) wanted = 0;
  }
  snapshot.subclusters = pool_->subcluster_statistics();
  snapshot.control_delay = pool_->control_delay();
  snapshot.batch_keys = pool_->batch_keys();
  snapshot.unknown = unknown_.load(std::memory_order_relaxed);
  snapshot.streams = streams_.statistics();
  const std::lock_guard adapting(adapting_);
  const std::map<std::string, uint32_t> replicas = replicas_->serving();
  for (const auto& adapter : adapters_) {
    PipelineStatistics& row = snapshot.pipelines.emplace_back(adapter->statistics());
    for (const auto& [route, count] : replicas) {
      if (route.starts_with(row.service + "/")) row.serving[route] = count;
    }
  }
  return snapshot;
}

void RealEngine::close_window() {
  const PoolTotals totals = totals_of(snapshot());
  const auto& least = options_.workers.least;
  if (least && !pool_size_) pool_size_.emplace(*least, options_.workers.count());
  const uint32_t workers = pool_size_ ? pool_size_->size() : totals.workers();
  AutoscaleSignal signal = signal_between(window_start_, totals, workers);
  if (pool_size_) {
    signal.wanted[options_.workers.types[0].name] =
        pool_size_->next({.to_add = signal.workers_to_add,
                          .planned = planned_workers(),
                          .load = plan::load_of({workers, signal.bad_rate, signal.idle_fraction})});
  } else {
    want_workers(uses_between(window_start_, totals), signal.wanted);
  }
  window_start_ = totals;
  {
    const std::lock_guard lock(mutex_);
    autoscale_ = std::move(signal);
  }
  if (pool_size_) set_workers(pool_size_->size());
}

// Of a remote type other hosts bring as many as are configured; of another, more than there are are
// those of further servers.
void RealEngine::want_workers(const std::vector<plan::PoolUse>& uses,
                              std::map<std::string, uint32_t>& wanted) {
  for (size_t type = 0; type < uses.size(); ++type) {
    const WorkerType& of = options_.workers.types[type];
    if (type == pool_sizes_.size()) {
      pool_sizes_.emplace_back(of.remote ? of.count : kMostServers * of.count, uses[type].workers);
    }
    wanted[of.name] = pool_sizes_[type].next(uses[type]);
  }
}

}  // namespace fermata::engine
