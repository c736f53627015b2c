#include "policy/pool/pool_scheduler.h"

#include <algorithm>

#include "base/check.h"
#include "policy/batch/rule_batcher.h"

namespace fermata::policy {

// A batcher knows how long a refused task would run, the ranker how long it would wait: said when a
// call ends.
struct PoolScheduler::Explaining {
  const PoolScheduler& scheduler;
  const Time now;
  Decisions& out;
  const size_t from = out.dropped.size();

  ~Explaining() {
    if (from == out.dropped.size()) return;
    const Duration wait = scheduler.ranker_->expected_wait(now);
    for (size_t i = from; i < out.dropped.size(); ++i) out.dropped[i].wait = wait;
  }
};

KeyId PoolScheduler::new_key() {
  const KeyId key = view_.new_key();
  if (key.index() == batchers_.size()) {
    batchers_.emplace_back();
    slot_.emplace_back();
    wakes_.resize(batchers_.size());
  }
  slot_[key.index()] = key;
  return key;
}

KeyId PoolScheduler::add_key(KeyInfo info) {
  const KeyId key = new_key();
  view_.add_model(key, info);
  batchers_[key.index()] = std::make_unique<RuleBatcher>(rules_, key, std::move(info), delay_);
  ranker_->add_key(key);
  return key;
}

const PoolScheduler::OfKind& PoolScheduler::of_kind(Kind kind) {
  for (const OfKind& known : shared_) {
    if (known.kind == kind) return known;
  }
  const KeyId slot = new_key();
  auto batcher = make_shared_batcher(kind, slot, delay_, view_, settings_);
  for (const WorkerView& worker : view_.workers()) batcher->add_worker(worker.type);
  ranker_->add_key(slot);
  shared_.push_back({kind, slot, batcher.get()});
  batchers_[slot.index()] = std::move(batcher);
  return shared_.back();
}

const PoolScheduler::OfKind* PoolScheduler::shared_of(KeyId key) const {
  for (const OfKind& known : shared_) {
    if (known.slot == slot_[key.index()]) return &known;
  }
  return nullptr;
}

KeyId PoolScheduler::add_service(const ServiceInfo& info) {
  const OfKind own = of_kind(kind_of(info));
  const KeyId key = new_key();
  slot_[key.index()] = own.slot;
  own.batcher->add_service(key, info);
  return key;
}

void PoolScheduler::remove_key(KeyId key) {
  FERMATA_CHECK(waiting_items(key) == 0);
  if (const OfKind* own = shared_of(key)) {
    own->batcher->remove_service(key);
  } else {
    view_.remove_model(key);
    batchers_[key.index()].reset();
  }
  wakes_.set(key.index(), Time::infinite());
  view_.free_key(key);
}

void PoolScheduler::update_latency(KeyId key, LatencyByType latency, Time now, Decisions& out) {
  const Explaining drops{*this, now, out};
  view_.set_latency(key, latency);
  for (const OfKind& each : shared_) {
    if (each.batcher->latency_changed(key, now)) settle(each.slot, now, out);
  }
  batchers_[key.index()]->set_latency(std::move(latency), now, out);
  settle(key, now, out);
}

void PoolScheduler::learned(const Task& task, const Estimate& estimate, Time now, Decisions& out) {
  const OfKind* own = shared_of(task.key);
  if (own == nullptr) return;
  const Explaining drops{*this, now, out};
  own->batcher->learned(task, estimate, now, out);
  settle(own->slot, now, out);
}

void PoolScheduler::set_delay_bound(DelayBound bound) {
  delay_ = bound;
  ranker_->set_delay_bound(bound);
  for (const auto& batcher : batchers_) {
    if (batcher != nullptr) batcher->set_delay_bound(bound);
  }
}

WorkerId PoolScheduler::add_worker(Time now, Decisions& out, uint32_t type, int64_t memory_bytes) {
  const Explaining drops{*this, now, out};
  const WorkerId worker(static_cast<uint32_t>(view_.workers().size()));
  for (const OfKind& each : shared_) each.batcher->add_worker(type);
  ranker_->add_worker(worker, type, memory_bytes, now, grants_);
  serve_grants(now, out);
  return worker;
}

void PoolScheduler::planned(const Plan& plan, Time now, Decisions& out) {
  const Explaining drops{*this, now, out};
  if (const auto* serving = std::get_if<Serving>(&plan)) {
    ranker_->set_available(serving->worker, serving->serves, now, grants_);
    return serve_grants(now, out);
  }
  if (const auto* way = std::get_if<Reaches>(&plan)) {
    ranker_->set_reaches(way->key, way->worker, way->reaches, now, grants_);
    return serve_grants(now, out);
  }
  const auto& loaded = std::get<LoadedAhead>(plan);
  view_.residents().hold(loaded.worker, loaded.variant, loaded.there);
  for (size_t k = 0; k < batchers_.size(); ++k) {
    const KeyId key(static_cast<uint32_t>(k));
    if (view_.is_model(key) && view_.info(key).variant == loaded.variant) settle(key, now, out);
  }
}

bool PoolScheduler::set_rules(const Rules& rules, Time now, Decisions& out) {
  const Explaining drops{*this, now, out};
  rules_ = rules;
  ranker_->set_rules(rules, now, grants_);
  serve_grants(now, out);
  for (size_t k = 0; k < batchers_.size(); ++k) {
    if (batchers_[k] == nullptr) continue;
    batchers_[k]->set_rules(rules, now, out);
    settle(KeyId(static_cast<uint32_t>(k)), now, out);
  }
  return true;
}

void PoolScheduler::nominate(const Task& task, Time now, Decisions& out) {
  const Explaining drops{*this, now, out};
  const KeyId slot = slot_[task.key.index()];
  batchers_[slot.index()]->nominated(task, now);
  batchers_[slot.index()]->tick(now, out);
  settle(slot, now, out);
}

bool PoolScheduler::withdraw(const Task& task, Time now, Decisions& out) {
  const Explaining drops{*this, now, out};
  const KeyId slot = slot_[task.key.index()];
  const bool gone = batchers_[slot.index()]->withdrawn(task);
  batchers_[slot.index()]->tick(now, out);
  settle(slot, now, out);
  return gone;
}

void PoolScheduler::ended(const BatchEnd& batch, Time now, Decisions& out) {
  const Explaining drops{*this, now, out};
  for (const OfKind& each : shared_) {
    if (each.batcher->ended(batch, now, out)) settle(each.slot, now, out);
  }
  ranker_->freed(batch.worker, now, grants_);
  serve_grants(now, out);
}

void PoolScheduler::tick(Time now, Decisions& out) {
  const Explaining drops{*this, now, out};
  while (wakes_.top() <= now) {
    const KeyId key(static_cast<uint32_t>(wakes_.top_index()));
    batchers_[key.index()]->tick(now, out);
    settle(key, now, out);
  }
  ranker_->tick(now, grants_);
  serve_grants(now, out);
}

Time PoolScheduler::next_wake() const { return std::min(wakes_.top(), ranker_->next_wake()); }

std::vector<Problem> PoolScheduler::last_problems() const {
  std::vector<Problem> last;
  for (const OfKind& each : shared_) each.batcher->add_problems(last);
  return last;
}

uint64_t PoolScheduler::waiting_items(KeyId key) const {
  const OfKind* own = shared_of(key);
  return own != nullptr ? own->batcher->waiting_items(key)
                        : batchers_[key.index()]->waiting_items();
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
    Answer answer = batchers_[grant.key.index()]->granted(grant, now, out);
    joined_.clear();
    if (answer.started) {
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

// Lets tasks of other kinds join, whatever kind `slot` has filled it with: those of the batch's own
// model, and those of composite services that it may answer. Into joined_: whose they may be.
void PoolScheduler::complete(Batch& batch, KeyId slot, Time now, Decisions& out) {
  joined_.clear();
  const auto limit = [&batch] {
    Time least = Time::infinite();
    for (const Task& task : batch.tasks) {
      if (task.deadline >= batch.finish) least = std::min(least, task.deadline);
    }
    return least;
  };
  if (slot != batch.key) {
    const uint32_t type = view_.worker(batch.worker).type;
    batchers_[batch.key.index()]->join(batch, type, limit(), now, out);
    joined_.push_back(batch.key);
  }
  for (const OfKind& each : shared_) {
    if (slot == each.slot) continue;
    each.batcher->join_other(batch, limit(), view_.latency(batch.key, batch.worker), now);
    joined_.push_back(each.slot);
  }
  const bool counted = batch.load;  // by who chose among what is loaded
  batch.load = view_.residents().use(batch.worker, batch.key);
  if (batch.load && !counted) batch.finish = batch.finish + view_.info(batch.key).load;
  for (const OfKind& each : shared_) each.batcher->bound(batch, each.slot == slot, now);
}

}  // namespace fermata::policy
