#include "policy/rivals/nexus.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"
#include "policy/batch/rule_batcher.h"
#include "policy/rivals/nexus_placement.h"

namespace fermata::policy {
namespace {

// Nexus plans anew "every 30 to 60 s".
constexpr Duration kEpoch = Duration::seconds(30);

}  // namespace

KeyId NexusScheduler::add_key(KeyInfo info) {
  stale_ = true;
  if (free_keys_.empty()) {
    keys_.push_back({std::move(info)});
    return KeyId(static_cast<uint32_t>(keys_.size() - 1));
  }
  const KeyId key = free_keys_.back();
  free_keys_.pop_back();
  keys_[key.index()] = {std::move(info)};
  return key;
}

void NexusScheduler::remove_key(KeyId key) {
  FERMATA_CHECK(waiting_items(key) == 0);
  for (const size_t r : keys_[key.index()].replicas) {
    const size_t w = replicas_[r].worker.index();
    if (w < workers_.size()) {
      std::erase(workers_[w].replicas, r);
      workers_[w].turn = 0;
    }
    wakes_.set(r, Time::infinite());
    replicas_[r] = {};
    free_replicas_.push_back(r);
  }
  keys_[key.index()] = {};
  keys_[key.index()].removed = true;
  free_keys_.push_back(key);
  stale_ = true;
}

void NexusScheduler::update_latency(KeyId key, LatencyByType latency, Time now, Decisions& out) {
  keys_[key.index()].info.latency = latency;
  for (const size_t r : keys_[key.index()].replicas) {
    const size_t dropped = out.dropped.size();
    replicas_[r].batcher->set_latency(latency.table(type_of(replicas_[r].worker)), now, out);
    wakes_.set(r, replicas_[r].batcher->next_wake());
    explain_drops(dropped, replicas_[r].worker, now, out);
  }
}

void NexusScheduler::set_delay_bound(DelayBound bound) {
  delay_ = bound;
  for (Replica& replica : replicas_) {
    if (replica.batcher != nullptr) replica.batcher->set_delay_bound(bound);
  }
}

WorkerId NexusScheduler::add_worker(Time now, Decisions& out, uint32_t type, int64_t) {
  const WorkerId worker(static_cast<uint32_t>(workers_.size()));
  workers_.push_back({type});
  for (size_t r = 0; r < replicas_.size(); ++r) {
    if (replicas_[r].batcher == nullptr || replicas_[r].worker != worker) continue;
    workers_.back().replicas.push_back(r);
    const LatencyByType& latency = keys_[replicas_[r].key.index()].info.latency;
    replicas_[r].batcher->set_latency(latency.table(type), now, out);
  }
  stale_ = true;
  serve(worker, now, out);
  return worker;
}

// At the end of an epoch; the first begins with the first task.
void NexusScheduler::measure(Time now) {
  for (KeyState& key : keys_) {
    const double items = static_cast<double>(std::exchange(key.items, 0));
    if (next_epoch_ > Time()) key.measured_rps = items / (now - epoch_began_).seconds();
  }
  epoch_began_ = now;
  next_epoch_ = now + kEpoch;
}

void NexusScheduler::place() {
  std::vector<Demand> demands;
  std::vector<KeyId> of;  // whose these are
  double sum = 0, known = 0;
  for (size_t k = 0; k < keys_.size(); ++k) {
    const KeyState& key = keys_[k];
    if (key.removed) continue;
    const double rate = key.info.rate_rps > 0 ? key.info.rate_rps : key.measured_rps.value_or(0);
    demands.push_back({rate, key.info.latency.slowest().get(), key.info.slo});
    of.emplace_back(static_cast<uint32_t>(k));
    sum += rate;
    known += rate > 0;
  }
  for (size_t d = 0; d < of.size(); ++d) {
    const KeyState& key = keys_[of[d].index()];
    const bool unknown = key.info.rate_rps <= 0 && !key.measured_rps;
    if (unknown) demands[d].rate_rps = known > 0 ? sum / known : 1;
  }
  for (Replica& replica : replicas_) replica.share = 0;
  // Before there is any worker, tasks wait for the first.
  const uint32_t workers = std::max(1u, static_cast<uint32_t>(workers_.size()));
  for (const Placed& p : place_by_rate(demands, workers)) {
    Replica& replica = replicas_[replica_of(of[p.key], WorkerId(p.worker))];
    replica.share += p.rate_rps;
    replica.dealt = 0;
  }
  stale_ = false;
}

size_t NexusScheduler::replica_of(KeyId key, WorkerId worker) {
  for (const size_t r : keys_[key.index()].replicas) {
    if (replicas_[r].worker == worker) return r;
  }
  KeyInfo info = keys_[key.index()].info;
  info.latency = info.latency.table(type_of(worker));
  const size_t r = new_replica(
      {key, worker,
       std::make_unique<RuleBatcher>(*policy_rules("eager"), key, std::move(info), delay_)});
  keys_[key.index()].replicas.push_back(r);
  if (worker.index() < workers_.size()) workers_[worker.index()].replicas.push_back(r);
  return r;
}

size_t NexusScheduler::new_replica(Replica replica) {
  if (free_replicas_.empty()) {
    replicas_.push_back(std::move(replica));
    wakes_.resize(replicas_.size());
    return replicas_.size() - 1;
  }
  const size_t r = free_replicas_.back();
  free_replicas_.pop_back();
  replicas_[r] = std::move(replica);
  return r;
}

// The replica that is furthest behind its share. place() gives every key one.
size_t NexusScheduler::deal(const KeyState& key) {
  size_t best = key.replicas.front();
  double least = std::numeric_limits<double>::infinity();
  for (const size_t r : key.replicas) {
    const Replica& replica = replicas_[r];
    if (replica.share == 0 || replica.dealt + 1 / replica.share >= least) continue;
    least = replica.dealt + 1 / replica.share;
    best = r;
  }
  replicas_[best].dealt = least;
  return best;
}

void NexusScheduler::nominate(const Task& task, Time now, Decisions& out) {
  if (next_epoch_ == Time()) measure(now);
  if (stale_) place();
  const size_t dropped = out.dropped.size();
  KeyState& key = keys_[task.key.index()];
  key.items += task.items;
  const size_t r = deal(key);
  Replica& replica = replicas_[r];
  replica.batcher->nominated(task, now);
  replica.batcher->tick(now, out);
  wakes_.set(r, replica.batcher->next_wake());
  explain_drops(dropped, replica.worker, now, out);
  serve(replica.worker, now, out);
}

bool NexusScheduler::withdraw(const Task& task, Time now, Decisions& out) {
  for (const size_t r : keys_[task.key.index()].replicas) {
    if (!replicas_[r].batcher->withdrawn(task)) continue;
    replicas_[r].batcher->tick(now, out);
    wakes_.set(r, replicas_[r].batcher->next_wake());
    return true;
  }
  return false;
}

void NexusScheduler::ended(const BatchEnd& batch, Time now, Decisions& out) {
  workers_[batch.worker.index()].busy = false;
  serve(batch.worker, now, out);
}

void NexusScheduler::tick(Time now, Decisions& out) {
  if (next_epoch_ > Time() && now >= next_epoch_) {
    measure(now);
    place();
  }
  while (wakes_.top() <= now) {
    const size_t r = wakes_.top_index();
    const size_t dropped = out.dropped.size();
    replicas_[r].batcher->tick(now, out);
    wakes_.set(r, replicas_[r].batcher->next_wake());
    explain_drops(dropped, replicas_[r].worker, now, out);
    serve(replicas_[r].worker, now, out);
  }
}

Time NexusScheduler::next_wake() const { return wakes_.top(); }

uint64_t NexusScheduler::waiting_items(KeyId key) const {
  uint64_t items = 0;
  for (const size_t r : keys_[key.index()].replicas) items += replicas_[r].batcher->waiting_items();
  return items;
}

// The next of its keys, in turn, for which something waits.
void NexusScheduler::serve(WorkerId id, Time now, Decisions& out) {
  if (id.index() >= workers_.size()) return;
  WorkerState& worker = workers_[id.index()];
  const size_t n = worker.replicas.size();
  for (size_t i = 0; i < n && !worker.busy; ++i) {
    const size_t r = worker.replicas[worker.turn];
    worker.turn = (worker.turn + 1) % n;
    Replica& replica = replicas_[r];
    const Offer& offer = replica.batcher->offer();
    if (offer.items == 0) continue;
    const size_t dropped = out.dropped.size();
    const Answer answer =
        replica.batcher->granted({replica.key, id, worker.type, now, 0, offer.epoch}, now, out);
    wakes_.set(r, replica.batcher->next_wake());
    worker.busy = answer.started;
    worker.free_at = answer.free_at;
    explain_drops(dropped, id, now, out);
  }
}

void NexusScheduler::explain_drops(size_t from, WorkerId worker, Time now, Decisions& out) const {
  if (worker.index() >= workers_.size()) return;
  const WorkerState& w = workers_[worker.index()];
  for (size_t i = from; i < out.dropped.size(); ++i) {
    out.dropped[i].wait = w.busy ? std::max(w.free_at - now, Duration()) : Duration();
  }
}

}  // namespace fermata::policy
