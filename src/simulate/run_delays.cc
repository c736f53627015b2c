// What the driver does for run times and delays that are not as they are said, as the server does.
#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "simulate/run.h"

namespace fermata::simulate {

Time Run::planned(const Source& source, Time deadline, uint32_t items, Time now) const {
  const uint64_t ended = counts_.on_time + counts_.bad + counts_.infeasible;
  const bool idle = arrived_ == ended && absl::c_all_of(workers_, [](const WorkerState& worker) {
                      return worker.bound == 0;
                    });
  const bool waits_for_data =
      source.ensemble != nullptr || (source.variants != nullptr && !source.variants->prior.empty());
  if (!delays_.starts() || !idle || waits_for_data || !source.members.empty() ||
      items > source.most_items) {
    return delays_.planned(deadline, now, Duration::infinite());
  }
  const auto table = fastest(source.variants != nullptr ? source.answers : std::vector{source.key});
  return delays_.planned(deadline, now, (*table)(items));
}

Time Run::deadline_of(const policy::Task& task) const {
  if (const auto own = branches_.find(task.job); own != branches_.end()) {
    return own->second.parent.is_none() ? own->second.deadline : task.deadline;
  }
  const auto own = deadlines_.find(task.job);
  return own == deadlines_.end() ? task.deadline : own->second;
}

void Run::measure(const Running& batch, uint32_t worker_type, Time now) {
  const auto drift = drifts_.find(batch.key);
  if (drift == drifts_.end() || batch.load) return;
  const uint32_t type = drift->second.corrections.size() == 1 ? 0 : worker_type;
  LatencyCorrection& correction = drift->second.corrections[type];
  correction.measured(batch.items, batch.end - batch.start);
  drift->second.last_evidence = now;
  publish(batch.key, drift->second, now);
}

void Run::publish(KeyId key, Drift& drift, Time now) {
  bool moved = false;
  for (uint32_t type = 0; type < drift.corrections.size(); ++type) {
    auto table = drift.corrections[type].publish();
    if (table == nullptr) continue;
    drift.learned = drift.learned.with(type, std::move(table));
    moved = true;
  }
  if (moved) scheduler_->update_latency(key, drift.learned, now, decisions_);
}

// What rejects work is less believed where nothing has run for a while that could show it wrong.
void Run::doubt(const policy::Task& rejected, Time now) {
  if (delays_.doubted(now)) scheduler_->set_delay_bound(delays_.bound());
  if (drifts_.empty()) return;
  const Source& source = source_of(rejected);
  for (const KeyId key : source.answers.empty() ? std::vector{rejected.key} : source.answers) {
    const auto drift = drifts_.find(key);
    if (drift == drifts_.end()) continue;
    if (now - drift->second.last_evidence < LatencyCorrection::kNoEvidence) continue;
    drift->second.last_evidence = now;
    for (LatencyCorrection& each : drift->second.corrections) each.doubted(rejected.items);
    publish(key, drift->second, now);
  }
}

// Behind what the worker runs.
Duration Run::drift_away(policy::Batch& batch, const WorkerState& worker, Time now) const {
  const auto drift = drifts_.find(batch.key);
  Duration run = batch.finish - batch.start, delay;
  const Time free = worker.bound > 0 ? worker.batches[0].end : now;
  if (delays_.starts()) {
    const Time due = std::max(free, now);
    delay = delays_.start(due);
    batch.start = due + delay;
  } else {
    batch.start = std::max(batch.start, free);
  }
  if (drift != drifts_.end()) {
    const auto& [factor, measured, learned, corrections, last] = drift->second;
    const Duration said = latencies_[batch.key.index()].on(worker.type)(batch.items);
    const Slowdown took =
        measured == nullptr ? Slowdown{factor} : measured->at(batch.start - Time());
    run += said.scaled(took.ratio) + took.over - learned.on(worker.type)(batch.items);
  }
  batch.finish = batch.start + run;
  return delay;
}

}  // namespace fermata::simulate
