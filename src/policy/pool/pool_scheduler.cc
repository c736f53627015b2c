#include "policy/pool/pool_scheduler.h"

#include <algorithm>

#include "base/check.h"

namespace fermata::policy {

KeyId PoolScheduler::new_key() {
  KeyId key(static_cast<uint32_t>(batchers_.size()));
  if (free_keys_.empty()) {
    batchers_.emplace_back();
    slot_.emplace_back();
    infos_.emplace_back();
    wakes_.resize(batchers_.size());
  } else {
    key = free_keys_.back();
    free_keys_.pop_back();
  }
  slot_[key.index()] = key;
  return key;
}

KeyId PoolScheduler::add_key(KeyInfo info) {
  const KeyId key = new_key();
  infos_[key.index()] = info;
  if (group_ != nullptr) group_->queue().add_key(key, info);
  if (ensembles_ != nullptr) ensembles_->queries().add_key(key, info);
  batchers_[key.index()] = make_batcher_(key, std::move(info), delay_);
  batchers_[key.index()]->see(ranker_->view());
  ranker_->add_key(key);
  return key;
}

GroupBatcher& PoolScheduler::group() {
  if (group_ != nullptr) return *group_;
  group_key_ = new_key();
  auto made = std::make_unique<GroupBatcher>(group_key_, delay_);
  group_ = made.get();
  for (size_t k = 0; k < batchers_.size(); ++k) {
    if (batchers_[k] == nullptr || KeyId(static_cast<uint32_t>(k)) == ensembles_key_) continue;
    group_->queue().add_key(KeyId(static_cast<uint32_t>(k)), infos_[k]);
  }
  for (const WorkerInfo& w : workers_) group_->add_worker(w.type, w.memory_bytes);
  batchers_[group_key_.index()] = std::move(made);
  ranker_->add_key(group_key_);
  return *group_;
}

EnsembleBatcher& PoolScheduler::ensembles() {
  if (ensembles_ != nullptr) return *ensembles_;
  ensembles_key_ = new_key();
  auto made = std::make_unique<EnsembleBatcher>(ensembles_key_, delay_);
  ensembles_ = made.get();
  for (size_t k = 0; k < batchers_.size(); ++k) {
    if (batchers_[k] == nullptr || slot_[k] == group_key_) continue;
    ensembles_->queries().add_key(KeyId(static_cast<uint32_t>(k)), infos_[k]);
  }
  for (const WorkerInfo& w : workers_) ensembles_->add_worker(w.type, w.running);
  batchers_[ensembles_key_.index()] = std::move(made);
  ranker_->add_key(ensembles_key_);
  return *ensembles_;
}

KeyId PoolScheduler::add_ensemble(const EnsembleInfo& info) {
  EnsembleBatcher& batcher = ensembles();
  const KeyId key = new_key();
  slot_[key.index()] = ensembles_key_;
  batcher.queries().add_ensemble(key, info);
  return key;
}

void PoolScheduler::scored(const Task& query, const Difficulty& difficulty, Time now,
                           Decisions& out) {
  const size_t dropped = out.dropped.size();
  ensembles_->scored(query, difficulty, now, out);
  settle(ensembles_key_, now, out);
  explain_drops(dropped, now, out);
}

void PoolScheduler::failed(WorkerId worker, const Task& query) {
  ensembles_->queries().failed(worker, query.job);
}

KeyId PoolScheduler::add_application(const ApplicationInfo& info) {
  GroupBatcher& batcher = group();
  const KeyId key = new_key();
  slot_[key.index()] = group_key_;
  ApplicationInfo seen = info;
  if (!settings_.data_aware.value_or(true)) {
    for (ApplicationVariant& variant : seen.variants) variant.recall.clear();
  }
  if (!settings_.short_circuit.value_or(true)) seen.short_circuit.reset();
  batcher.queue().add_application(key, seen);
  return key;
}

void PoolScheduler::remove_key(KeyId key) {
  FERMATA_CHECK(waiting_items(key) == 0);
  if (group_ != nullptr) group_->queue().remove(key);
  if (ensembles_ != nullptr) ensembles_->queries().remove(key);
  if (slot_[key.index()] == key) batchers_[key.index()].reset();
  wakes_.set(key.index(), Time::infinite());
  free_keys_.push_back(key);
}

void PoolScheduler::update_latency(KeyId key, LatencyByType latency, Time now, Decisions& out) {
  const size_t dropped = out.dropped.size();
  infos_[key.index()].latency = latency;
  if (group_ != nullptr && group_->queue().set_latency(key, latency)) {
    group_->variant_latency_changed(now);
    settle(group_key_, now, out);
  }
  if (ensembles_ != nullptr) ensembles_->queries().set_latency(key, latency);
  batchers_[key.index()]->set_latency(std::move(latency), now, out);
  settle(key, now, out);
  explain_drops(dropped, now, out);
}

void PoolScheduler::learned(const Task& task, Evidence evidence, Time now, Decisions& out) {
  const size_t dropped = out.dropped.size();
  group_->learned(task, std::move(evidence), now, out);
  settle(group_key_, now, out);
  explain_drops(dropped, now, out);
}

void PoolScheduler::set_delay_bound(DelayBound bound) {
  delay_ = bound;
  ranker_->set_delay_bound(bound);
  for (const auto& batcher : batchers_) {
    if (batcher != nullptr) batcher->set_delay_bound(bound);
  }
}

WorkerId PoolScheduler::add_worker(Time now, Decisions& out, uint32_t type, int64_t memory_bytes) {
  const size_t dropped = out.dropped.size();
  const WorkerId worker(static_cast<uint32_t>(workers_.size()));
  workers_.push_back({type, memory_bytes});
  if (group_ != nullptr) {
    group_->add_worker(type, memory_bytes);
  } else if (memory_bytes != kUnlimitedMemory) {
    group();  // keeps account of what is loaded
  }
  if (ensembles_ != nullptr) ensembles_->add_worker(type, 0);
  ranker_->add_worker(worker, type, now, grants_);
  serve_grants(now, out);
  explain_drops(dropped, now, out);
  return worker;
}

void PoolScheduler::nominate(const Task& task, Time now, Decisions& out) {
  const size_t dropped = out.dropped.size();
  const KeyId slot = slot_[task.key.index()];
  batchers_[slot.index()]->nominated(task, now, out);
  settle(slot, now, out);
  explain_drops(dropped, now, out);
}

bool PoolScheduler::withdraw(const Task& task, Time now, Decisions& out) {
  const size_t dropped = out.dropped.size();
  const KeyId slot = slot_[task.key.index()];
  if (!batchers_[slot.index()]->withdrawn(task, now, out)) return false;
  settle(slot, now, out);
  explain_drops(dropped, now, out);
  return true;
}

void PoolScheduler::freed(WorkerId worker, Time now, Decisions& out) {
  const size_t dropped = out.dropped.size();
  --workers_[worker.index()].running;
  if (ensembles_ != nullptr) {
    ensembles_->freed(worker, now, out);
    settle(ensembles_key_, now, out);
  }
  ranker_->freed(worker, now, grants_);
  serve_grants(now, out);
  explain_drops(dropped, now, out);
}

void PoolScheduler::tick(Time now, Decisions& out) {
  const size_t dropped = out.dropped.size();
  while (wakes_.top() <= now) {
    const KeyId key(static_cast<uint32_t>(wakes_.top_index()));
    batchers_[key.index()]->tick(now, out);
    settle(key, now, out);
  }
  ranker_->tick(now, grants_);
  serve_grants(now, out);
  explain_drops(dropped, now, out);
}

Time PoolScheduler::next_wake() const { return std::min(wakes_.top(), ranker_->next_wake()); }

std::vector<plan::GroupProblem> PoolScheduler::last_problems() const {
  return group_ == nullptr ? std::vector<plan::GroupProblem>() : group_->kept().copy();
}

uint64_t PoolScheduler::waiting_items(KeyId key) const {
  const KeyId slot = slot_[key.index()];
  if (slot == key) return batchers_[key.index()]->waiting_items();
  if (slot == group_key_) return group_->queue().waiting_items(key);
  return ensembles_->queries().waiting_items(key);
}

void PoolScheduler::settle(KeyId key, Time now, Decisions& out) {
  const Batcher& batcher = *batchers_[key.index()];
  wakes_.set(key.index(), batcher.next_wake());
  ranker_->offered(batcher.offer(), now, grants_);
  serve_grants(now, out);
}

// When the granted worker must be free again for what may come for single models, whose deadlines
// a long batch would cost; infinite where another of its type is free by then, or nothing comes.
Time PoolScheduler::worker_is_free_by(const Grant& grant, Time now) const {
  Duration slack = Duration::infinite();
  for (const auto& batcher : batchers_) {
    if (batcher != nullptr) slack = std::min(slack, batcher->slack(now));
  }
  if (slack.is_infinite()) return Time::infinite();
  const auto& workers = group_->queue().pool().workers;
  for (size_t w = 0; w < workers.size(); ++w) {
    if (w == grant.worker.index() || workers[w].type != grant.worker_type) continue;
    if (workers[w].free_at <= now + slack) return Time::infinite();
  }
  return now + slack;
}

void PoolScheduler::serve_grants(Time now, Decisions& out) {
  for (size_t i = 0; i < grants_.size(); ++i) {  // serving may append more
    const Grant grant = grants_[i];
    Batcher& batcher = *batchers_[grant.key.index()];
    if (&batcher == group_) group_->end_by(worker_is_free_by(grant, now));
    Answer answer = batcher.granted(grant, now, out);
    joined_.clear();
    if (answer.started) {
      ++workers_[grant.worker.index()].running;
      complete(out.bound.back(), grant.key, now, out);
      answer.free_at = out.bound.back().finish;
    }
    joined_.push_back(grant.key);
    ranker_->answered(answer, now, grants_);
    for (const KeyId slot : joined_) {
      wakes_.set(slot.index(), batchers_[slot.index()]->next_wake());
      ranker_->offered(batchers_[slot.index()]->offer(), now, grants_);
    }
  }
  grants_.clear();
}

// Lets tasks of other kinds join, whatever kind `slot` has filled it with: those of applications
// and ensembles that the batch's variant may answer, and those of its own services. Into
// joined_: whose tasks they may be.
void PoolScheduler::complete(Batch& batch, KeyId slot, Time now, Decisions& out) {
  joined_.clear();
  const auto limit = [&batch] {
    Time least = Time::infinite();
    for (const Task& task : batch.tasks) {
      if (task.deadline >= batch.finish) least = std::min(least, task.deadline);
    }
    return least;
  };
  const KeyInfo& info = infos_[batch.key.index()];
  const uint32_t type = workers_[batch.worker.index()].type;
  const LatencyTable& latency = info.latency.on(type);
  if (slot != batch.key) {
    batchers_[batch.key.index()]->join(batch, type, limit(), now, out);
    joined_.push_back(batch.key);
  }
  if (group_ != nullptr && slot != group_key_) {
    group_->join_other(batch, limit(), latency, now);
    joined_.push_back(group_key_);
  }
  if (ensembles_ != nullptr && slot != ensembles_key_) {
    ensembles_->join_other(batch, limit(), latency, now);
    joined_.push_back(ensembles_key_);
  }
  if (group_ != nullptr) {
    batch.load = group_->queue().use(batch.worker, batch.key);
    // Applications have counted it in already; the others know nothing of it.
    if (batch.load && slot != group_key_) batch.finish = batch.finish + info.load;
    group_->queue().set_free_at(batch.worker, batch.finish);
    if (slot != group_key_) group_->others_run(batch, now);
  }
  if (ensembles_ != nullptr) ensembles_->bound(batch, now);
}

// A batcher knows how long a refused task would run, the ranker how long it
// would wait.
void PoolScheduler::explain_drops(size_t from, Time now, Decisions& out) const {
  if (from == out.dropped.size()) return;
  const Duration wait = ranker_->expected_wait(now);
  for (size_t i = from; i < out.dropped.size(); ++i) out.dropped[i].wait = wait;
}

}  // namespace fermata::policy
