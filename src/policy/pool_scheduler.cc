#include "policy/pool_scheduler.h"

#include <algorithm>

#include "base/check.h"

namespace fermata::policy {

KeyId PoolScheduler::add_key(KeyInfo info) {
  KeyId key(static_cast<uint32_t>(batchers_.size()));
  if (free_keys_.empty()) {
    batchers_.emplace_back();
    wakes_.resize(batchers_.size());
  } else {
    key = free_keys_.back();
    free_keys_.pop_back();
  }
  batchers_[key.index()] = make_batcher_(key, std::move(info), delay_);
  ranker_->add_key(key);
  return key;
}

void PoolScheduler::remove_key(KeyId key) {
  FERMATA_CHECK(waiting_items(key) == 0);
  batchers_[key.index()].reset();
  wakes_.set(key.index(), Time::infinite());
  free_keys_.push_back(key);
}

void PoolScheduler::update_latency(KeyId key, std::shared_ptr<const LatencyTable> latency, Time now,
                                   Decisions& out) {
  const size_t dropped = out.dropped.size();
  batchers_[key.index()]->set_latency(std::move(latency), now, out);
  settle(key, now, out);
  explain_drops(dropped, now, out);
}

void PoolScheduler::set_delay_bound(DelayBound bound) {
  delay_ = bound;
  ranker_->set_delay_bound(bound);
  for (const auto& batcher : batchers_) {
    if (batcher != nullptr) batcher->set_delay_bound(bound);
  }
}

WorkerId PoolScheduler::add_worker(Time now, Decisions& out, uint32_t type) {
  const size_t dropped = out.dropped.size();
  const WorkerId worker(workers_++);
  ranker_->add_worker(worker, type, now, grants_);
  serve_grants(now, out);
  explain_drops(dropped, now, out);
  return worker;
}

void PoolScheduler::nominate(const Task& task, Time now, Decisions& out) {
  const size_t dropped = out.dropped.size();
  batchers_[task.key.index()]->nominated(task, now, out);
  settle(task.key, now, out);
  explain_drops(dropped, now, out);
}

bool PoolScheduler::withdraw(const Task& task, Time now, Decisions& out) {
  const size_t dropped = out.dropped.size();
  if (!batchers_[task.key.index()]->withdrawn(task, now, out)) return false;
  settle(task.key, now, out);
  explain_drops(dropped, now, out);
  return true;
}

void PoolScheduler::freed(WorkerId worker, Time now, Decisions& out) {
  const size_t dropped = out.dropped.size();
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

uint64_t PoolScheduler::waiting_items(KeyId key) const {
  return batchers_[key.index()]->waiting_items();
}

void PoolScheduler::settle(KeyId key, Time now, Decisions& out) {
  const Batcher& batcher = *batchers_[key.index()];
  wakes_.set(key.index(), batcher.next_wake());
  ranker_->offered(batcher.offer(), now, grants_);
  serve_grants(now, out);
}

void PoolScheduler::serve_grants(Time now, Decisions& out) {
  for (size_t i = 0; i < grants_.size(); ++i) {  // serving may append more
    const Grant grant = grants_[i];
    Batcher& batcher = *batchers_[grant.key.index()];
    const Answer answer = batcher.granted(grant, now, out);
    wakes_.set(grant.key.index(), batcher.next_wake());
    ranker_->answered(answer, now, grants_);
    ranker_->offered(batcher.offer(), now, grants_);
  }
  grants_.clear();
}

// A batcher knows how long a refused task would run, the ranker how long it
// would wait.
void PoolScheduler::explain_drops(size_t from, Time now, Decisions& out) const {
  if (from == out.dropped.size()) return;
  const Duration wait = ranker_->expected_wait(now);
  for (size_t i = from; i < out.dropped.size(); ++i) out.dropped[i].wait = wait;
}

}  // namespace fermata::policy
