// What the driver learns from batches: their latencies and the delay of its own control path.
#include <algorithm>

#include "engine/composite/variants_service.h"
#include "engine/schedule/driver_state.h"

namespace fermata::engine {
namespace {

constexpr double kMoreBytes = 1.1;
constexpr Duration kLookAtLinks = Duration::millis(100);

}  // namespace

// There is no delay for each item (Symphony's d_data): gathering a batch is in its measured latency
// (learn()), once.
void Driver::observe_delay(Duration delay, Time now) {
  if (delay_.observe(delay, now)) publish_delay();
}

void Driver::publish_delay() {
  control_delay_.store(delay_.bound().nanos(), std::memory_order_relaxed);
  scheduler_->set_delay_bound({.control = delay_.bound()});
}

Duration Driver::fastest(KeyId key, uint32_t items) const {
  Duration least = Duration::infinite();
  if (composites_.has(key)) {
    for (const KeyId model : composites_.variants(key)) {
      least = std::min(least, fastest(model, items));
    }
    return least;
  }
  for (const auto& table : keys_.at(key).latency.tables()) least = std::min(least, (*table)(items));
  return least;
}

Time Driver::deadline_for(const Job& job, KeyId key, Time now) const {
  const Time whole = job.deadline();
  if (whole.is_infinite()) return whole;
  const Time deadline = whole - reply_delay_.allowance(whole - now);
  const bool idle = in_flight_ == 0 && parts_.empty();
  const Route& route = job.route();
  if (!idle || job.items() > route.part_items) return deadline;
  // These end at their deadline with what they have.
  if (route.ensemble != nullptr) return deadline;
  if (route.variants != nullptr && route.variants->evidence != nullptr) return deadline;
  return delay_.deadline_when_idle(whole, now, fastest(key, job.items()));
}

void Driver::learn(const InFlight& running, Time now) {
  const Route& route = running.shares.front().job->route();
  const PartRun& run = running.run;
  // A batch bound ahead waits for the one before it, which is no delay of the control path.
  Worker& worker = *workers_[running.worker.index()];
  Time& last_end = worker.last_end;
  if (!running.load) observe_delay(run.started - std::max(running.due, last_end), now);
  last_end = run.ended();
  // That of the batch before: this one is being answered.
  if (const int64_t nanos = worker.reply_nanos.exchange(0); nanos > 0) {
    reply_delay_.observe(Duration::nanos(nanos));
  }
  if (!running.all_good) return;
  BatchKey& key = keys_.at(running.key);
  key.last_evidence = now;
  key.ran = true;
  LatencyCorrection& correction = key.corrections[worker.type];
  correction.measured(running.items, run.input + run.run + run.output - running.link);
  if (route.composite == nullptr) route.counters->set_drift(correction.drift());
  learn_way(running, now);
  publish(running.key, now);
}

// What an item's way to another host takes, and the ways to all hosts, the longest of each type.
void Driver::learn_way(const InFlight& running, Time now) {
  if (!remote_ || running.moved == 0) return;
  BatchKey& key = keys_.at(running.key);
  const double item_bytes = static_cast<double>(running.moved) / running.items;
  if (item_bytes > kMoreBytes * key.item_bytes) {
    key.item_bytes = item_bytes;
    const uint32_t type = workers_[running.worker.index()]->type;
    keys_.update_latency(running.key, keys_.with_run(key, type, key.runs[type]), now, decisions_);
  }
  look_at_links(now);
}

void Driver::look_at_links(Time now) {
  if (!remote_ || now - looked_at_links_ < kLookAtLinks) return;
  looked_at_links_ = now;
  std::vector<LinkBound> longest(shared_.types.size());
  for (const auto& worker : workers_) {
    if (worker->away) continue;
    const std::optional<LinkBound> link = worker->executor->link();
    if (!link) continue;
    LinkBound& most = longest[worker->type];
    most.control = std::max(most.control, link->control);
    most.nanos_per_byte = std::max(most.nanos_per_byte, link->nanos_per_byte);
  }
  for (uint32_t type = 0; type < longest.size(); ++type) {
    if (longest[type].control > Duration()) keys_.set_link(type, longest[type], now, decisions_);
  }
}

// A query of an ensemble was refused by the latencies of all its base models.
void Driver::doubt(const policy::Task& refused, Time now) {
  if (delay_.doubted(now)) publish_delay();
  look_at_links(now);  // which batches do where any run
  if (!composites_.has(refused.key)) return doubt(refused.key, refused.items, now);
  for (const KeyId model : composites_.variants(refused.key)) doubt(model, refused.items, now);
}

void Driver::doubt(KeyId id, uint32_t items, Time now) {
  BatchKey& key = keys_.at(id);
  if (now - key.last_evidence < LatencyCorrection::kNoEvidence) return;
  key.last_evidence = now;
  for (LatencyCorrection& correction : key.corrections) correction.doubted(items);
  publish(id, now);
}

void Driver::publish(KeyId id, Time now) {
  BatchKey& key = keys_.at(id);
  bool moved = false;
  for (uint32_t type = 0; type < key.corrections.size(); ++type) {
    auto table = key.corrections[type].publish();
    if (table == nullptr) continue;
    key.latency = keys_.with_run(key, type, std::move(table));
    moved = true;
  }
  if (moved) keys_.update_latency(id, key.latency, now, decisions_);
}

}  // namespace fermata::engine
