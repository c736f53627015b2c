#include "policy/pool/pool_ranker.h"

#include <algorithm>

#include "base/check.h"

namespace fermata::policy {
namespace {

// A grant's share in the moving averages: the last 500 grants count.
constexpr double kGrantWeight = 0.002;

}  // namespace

void PoolRanker::add_key(KeyId key) {
  const size_t n = std::max(offers_.size(), key.index() + size_t{1});
  offers_.resize(n);
  epoch_.resize(n);
  later_.resize(n);
  due_.resize(n);
  for (Type& type : types_) type.due.resize(n);
  patient_.resize(n);
  forget(key);
  offers_[key.index()] = Offer{key};
  epoch_[key.index()] = 0;
}

void PoolRanker::add_worker(WorkerId worker, uint32_t type, Time now, std::vector<Grant>& out) {
  FERMATA_CHECK(worker.index() == workers_.size());
  FERMATA_CHECK(type < kMostWorkerTypes);
  workers_.push_back({type});
  if (type >= types_.size()) {
    types_.resize(type + 1);
    for (Type& each : types_) each.due.resize(offers_.size());
    for (size_t k = 0; k < offers_.size(); ++k) set_due(k, due_[k]);
  }
  for (Type& each : types_) each.available.resize(workers_.size());
  place(worker);
  match(now, out);
}

void PoolRanker::place(WorkerId worker) {
  const WorkerState& w = workers_[worker.index()];
  Time when = Time::infinite();
  if (!w.granted && w.running == 0) when = kIdle;
  if (!w.granted && w.running == 1 && delay_(1) > Duration()) when = w.free_at;
  types_[w.type].available.set(worker.index(), when);
}

void PoolRanker::set_due(size_t key, bool due) {
  due_[key] = due;
  const Offer& offer = offers_[key];
  for (size_t type = 0; type < types_.size(); ++type) {
    const bool here = due && (offer.types >> type & 1) != 0;
    types_[type].due.set(key, here ? offer.urgency : Time::infinite());
  }
}

void PoolRanker::forget(KeyId key) {
  later_.set(key.index(), Time::infinite());
  set_due(key.index(), false);
  patient_.set(key.index(), Time::infinite());
}

void PoolRanker::offered(const Offer& offer, Time now, std::vector<Grant>& out) {
  const size_t k = offer.key.index();
  if (offer.epoch < epoch_[k]) return;  // crossed a grant
  offers_[k] = offer;
  const bool urgent = offer.items > 0 && !offer.patient;
  const bool due = urgent && decide_at(offer) <= now;
  later_.set(k, urgent && !due ? decide_at(offer) : Time::infinite());
  set_due(k, due);
  patient_.set(k, offer.items > 0 && offer.patient ? offer.urgency : Time::infinite());
  match(now, out);
}

void PoolRanker::answered(const Answer& answer, Time now, std::vector<Grant>& out) {
  WorkerState& w = workers_[answer.worker.index()];
  FERMATA_CHECK(w.granted);
  w.granted = false;
  if (answer.started) {
    if (++w.running == 1) w.ends = answer.free_at;
    w.free_at = answer.free_at;
  }
  place(answer.worker);
  match(now, out);
}

void PoolRanker::freed(WorkerId worker, Time now, std::vector<Grant>& out) {
  WorkerState& w = workers_[worker.index()];
  FERMATA_CHECK(w.running > 0);
  if (--w.running == 1) {  // what was bound ahead starts as late as this one ended
    w.free_at = std::max(w.free_at, w.free_at + (now - w.ends));
    w.ends = w.free_at;
  }
  place(worker);
  match(now, out);
}

void PoolRanker::match(Time now, std::vector<Grant>& out) {
  while (later_.top() <= now) {
    const size_t k = later_.top_index();
    later_.set(k, Time::infinite());
    set_due(k, true);
  }
  while (grant_due(now, out)) {
  }
  while (grant_patient(now, out)) {
  }
}

bool PoolRanker::grant_due(Time now, std::vector<Grant>& out) {
  Type* first = nullptr;  // whose offer is the most urgent of those that can have a worker
  for (Type& type : types_) {
    if (type.due.top().is_infinite()) continue;
    // A worker later than expected has no known end: it counts again once freed.
    while (type.available.top() != kIdle && type.available.top() < now) {
      type.available.set(type.available.top_index(), Time::infinite());
    }
    const Time free_at = type.available.top();
    if (free_at.is_infinite()) continue;
    if (free_at != kIdle && free_at - delay_(offers_[type.due.top_index()].items) > now) continue;
    if (first == nullptr || type.due.top() < first->due.top()) first = &type;
  }
  if (first == nullptr) return false;
  const size_t k = first->due.top_index();
  wait_ += (now - decide_at(offers_[k])).scaled(kGrantWeight) - wait_.scaled(kGrantWeight);
  variation_ += kGrantWeight * (offers_[k].variation - variation_);
  grant(KeyId(static_cast<uint32_t>(k)),
        WorkerId(static_cast<uint32_t>(first->available.top_index())), now, out);
  return true;
}

// Without a deadline a batch must not keep one that has it waiting: it runs only
// if, for as long as it takes, there are workers of its type for all offers that will want one.
bool PoolRanker::grant_patient(Time now, std::vector<Grant>& out) {
  if (patient_.top().is_infinite()) return false;
  const KeyId key(static_cast<uint32_t>(patient_.top_index()));
  const Offer& offer = offers_[key.index()];
  const Time end = now + offer.run;
  for (size_t t = types_.size(); t-- > 0;) {
    const Type& type = types_[t];
    if (type.available.top() != kIdle || (offer.types >> t & 1) == 0) continue;
    size_t idle = 0, wanted = 0;
    for (size_t w = 0; w < workers_.size(); ++w) idle += type.available[w] == kIdle;
    for (size_t k = 0; k < offers_.size(); ++k) {
      wanted += later_[k] < end && (offers_[k].types >> t & 1) != 0;
    }
    if (idle <= wanted) continue;
    grant(key, WorkerId(static_cast<uint32_t>(type.available.top_index())), now, out);
    return true;
  }
  return false;
}

void PoolRanker::grant(KeyId key, WorkerId worker, Time now, std::vector<Grant>& out) {
  WorkerState& w = workers_[worker.index()];
  const Offer& offer = offers_[key.index()];
  const Time free_at = w.running == 0 ? now : w.free_at;
  w.granted = true;
  place(worker);
  forget(key);
  epoch_[key.index()] = offer.epoch + 1;
  out.push_back({key, worker, w.type, free_at, wait_, variation_, offer.epoch});
}

Time PoolRanker::next_wake() const {
  Time wake = later_.top();
  for (const Type& type : types_) {
    if (type.due.top().is_infinite() || type.available.top().is_infinite()) continue;
    wake = std::min(wake, type.available.top() - delay_(offers_[type.due.top_index()].items));
  }
  return wake;
}

Duration PoolRanker::expected_wait(Time now) const {
  Time first = Time::infinite();
  for (const WorkerState& w : workers_) {
    first = std::min(first, w.running == 0 ? now : w.free_at);
  }
  return std::max(first - now, Duration());
}

}  // namespace fermata::policy
