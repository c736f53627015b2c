#include "policy/pool/view.h"

#include <algorithm>

#include "base/check.h"

namespace fermata::policy {

KeyId PoolView::new_key() {
  if (free_keys_.empty()) return KeyId(keys_++);
  const KeyId key = free_keys_.back();
  free_keys_.pop_back();
  return key;
}

void PoolView::add_key(KeyId key) {
  offers_.resize(std::max(offers_.size(), key.index() + size_t{1}));
  slack_.resize(offers_.size());
  first_by_.resize(offers_.size());
  set_offer(Offer{key});
}

// Workers that hold different variants are of different types as well, and yet as fast.
void PoolView::tell_apart(const LatencyByType& latency) {
  for (uint32_t a = 0; a < latency.tables().size(); ++a) {
    for (uint32_t b = 0; b < a; ++b) {
      if (latency.on(a)(1) == latency.on(b)(1)) continue;
      alike_[a] &= ~(1u << b);
      alike_[b] &= ~(1u << a);
    }
  }
}

void PoolView::add_model(KeyId key, KeyInfo info) {
  tell_apart(info.latency);
  residents_.add_key(key, info);
  infos_.resize(std::max(infos_.size(), key.index() + size_t{1}));
  infos_[key.index()] = std::move(info);
}

void PoolView::remove_model(KeyId key) {
  residents_.remove_key(key);
  infos_[key.index()] = {};
  absl::erase_if(unreached_, [key](const auto& way) { return way.first == key; });
  if (key.index() < offers_.size()) set_offer(Offer{key});  // nothing is expected of it any more
}

void PoolView::set_reaches(KeyId key, WorkerId worker, bool reaches) {
  if (reaches) {
    unreached_.erase({key, worker});
  } else {
    unreached_.insert({key, worker});
  }
}

uint32_t PoolView::types_of_model(KeyId key) const {
  uint32_t types = 0;
  for (size_t w = 0; w < workers_.size(); ++w) {
    const auto there = residents_.holds_ahead(WorkerId(static_cast<uint32_t>(w)), key);
    if (!there) return kAnyType;
    if (*there) types |= 1u << workers_[w].type;
  }
  return types == 0 ? kAnyType : types;
}

void PoolView::set_offer(const Offer& offer) {
  const size_t k = offer.key.index();
  offers_[k] = offer;
  const uint32_t there = offer.types & types_for(offer.key);
  if (there != offer.types && there != 0)
    offers_[k].types = there;  // 0: it is loaded where it may run
  slack_.set(k, Time() + offer.outlook.slack);
  const bool waits = offer.items > 0 && !offer.best_effort;
  first_by_.set(k, waits ? offer.outlook.first_by : Time::infinite());
}

WorkerId PoolView::add_worker(uint32_t type, int64_t memory_bytes) {
  FERMATA_CHECK(type < kMostWorkerTypes);
  const WorkerId worker(static_cast<uint32_t>(workers_.size()));
  workers_.push_back({.type = type});
  residents_.add_worker(memory_bytes);
  types_.resize(std::max(types_.size(), type + size_t{1}));
  for (Type& each : types_) each.busy.resize(workers_.size());
  ++types_[type].idle;
  ++serving_;
  return worker;
}

void PoolView::enter(WorkerId worker, bool was_idle) {
  const WorkerView& w = workers_[worker.index()];
  Type& type = types_[w.type];
  if (was_idle) --type.idle;
  if (is_idle(w)) ++type.idle;
  type.busy.set(worker.index(), w.running > 0 && !w.away ? w.free_at : Time::infinite());
}

void PoolView::set_away(WorkerId worker, bool away) {
  WorkerView& w = workers_[worker.index()];
  if (w.away == away) return;
  const bool was_idle = is_idle(w);
  w.away = away;
  away ? --serving_ : ++serving_;
  enter(worker, was_idle);
}

void PoolView::bound(WorkerId worker, Time free_at) {
  WorkerView& w = workers_[worker.index()];
  const bool was_idle = is_idle(w);
  if (++w.running == 1) w.ends = free_at;
  w.free_at = free_at;
  enter(worker, was_idle);
}

void PoolView::freed(WorkerId worker, Time now) {
  WorkerView& w = workers_[worker.index()];
  FERMATA_CHECK(w.running > 0);
  ++w.ended;
  if (--w.running == 0) w.free_at = std::min(w.free_at, now);
  if (w.running == 1) {  // what was bound ahead starts as late as this one ended
    w.free_at = std::max(w.free_at, w.free_at + (now - w.ends));
    w.ends = w.free_at;
  }
  enter(worker, false);
}

void PoolView::set_granted(WorkerId worker, bool granted) {
  WorkerView& w = workers_[worker.index()];
  const bool was_idle = is_idle(w);
  w.granted = granted;
  enter(worker, was_idle);
}

Time PoolView::next_free(uint32_t type, WorkerId but) {
  return least(types_[type].busy, but.index());
}

Duration PoolView::least_slack(KeyId but) { return least(slack_, but.index()) - Time(); }

Time PoolView::least(MinTree& tree, size_t but) {
  if (tree.top_index() != but) return tree.top();
  const Time own = tree[but];
  tree.set(but, Time::infinite());
  const Time least = tree.top();
  tree.set(but, own);
  return least;
}

}  // namespace fermata::policy
