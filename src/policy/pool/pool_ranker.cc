#include "policy/pool/pool_ranker.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "estimate/rate.h"
#include "policy/batch/instants.h"
#include "policy/pool/account.h"

namespace fermata::policy {
namespace {

// A grant's share in the moving average: the last 500 grants count.
constexpr double kGrantWeight = 0.002;
constexpr Duration kLoadEvery = estimate::RateMeter::kWindow;
// rules.h and docs/trials.md say what these stand for.
constexpr uint32_t kMostLeft = 16;  // workers: with more, nobody is late
constexpr int64_t kOverdue = 20;    // of its runs

}  // namespace

void PoolRanker::add_key(KeyId key) {
  view_.add_key(key);
  const size_t n = view_.offers().size();
  epoch_.resize(n);
  later_.resize(n);
  due_.resize(n);
  due_run_.resize(n);
  is_held_.resize(n);
  bursts_.resize(n);
  for (Type& type : types_) type.due.resize(n);
  best_effort_.resize(n);
  forget(key);
  epoch_[key.index()] = 0;
}

void PoolRanker::add_worker(WorkerId worker, uint32_t type, int64_t memory_bytes, Time now,
                            std::vector<Grant>& out) {
  const WorkerId added = view_.add_worker(type, memory_bytes);
  FERMATA_CHECK(added == worker);
  if (type >= types_.size()) {
    types_.resize(type + 1);
    for (Type& each : types_) each.due.resize(due_.size());
    for (size_t k = 0; k < due_.size(); ++k) set_due(k, due_[k]);
  }
  for (Type& each : types_) each.available.resize(view_.workers().size());
  granted_to_.resize(view_.workers().size());
  place(worker);
  match(now, out);
}

void PoolRanker::place(WorkerId worker) {
  const WorkerView& w = view_.worker(worker);
  Time when = Time::infinite();
  if (w.granted || w.away) return types_[w.type].available.set(worker.index(), when);
  if (w.running == 0) when = kIdle;
  if (w.running == 1 && delay_(1) > Duration()) when = w.free_at;
  types_[w.type].available.set(worker.index(), when);
}

void PoolRanker::change_due(size_t key, bool due) {
  due_[key] = due;
  const Offer& offer = view_.offers()[key];
  const Duration run = due ? offer.run : Duration();
  backlog_ += run - std::exchange(due_run_[key], run);
  for (size_t type = 0; type < types_.size(); ++type) {
    const bool here = due && (offer.types >> type & 1) != 0;
    types_[type].due.set(key, here ? offer.urgency : Time::infinite());
  }
}

void PoolRanker::forget(KeyId key) {
  later_.set(key.index(), Time::infinite());
  set_due(key.index(), false);
  best_effort_.set(key.index(), Time::infinite());
}

void PoolRanker::offered(const Offer& own, Time now, std::vector<Grant>& out) {
  const size_t k = own.key.index();
  if (own.epoch < epoch_[k]) return;  // crossed a grant
  view_.set_offer(own);
  const Offer& offer = view_.offer(own.key);
  const bool urgent = offer.items > 0 && !offer.best_effort;
  const bool due = urgent && decide_at(offer) <= now;
  later_.set(k, urgent && !due ? decide_at(offer) : Time::infinite());
  set_due(k, due);
  best_effort_.set(k, offer.items > 0 && offer.best_effort ? offer.urgency : Time::infinite());
  match(now, out);
}

void PoolRanker::answered(const Answer& answer, Time now, std::vector<Grant>& out) {
  FERMATA_CHECK(view_.worker(answer.worker).granted);
  view_.set_granted(answer.worker, false);
  if (answer.started) learn(answer, now);
  if (answer.started) view_.bound(answer.worker, answer.free_at);
  release_held(now);
  place(answer.worker);
  match(now, out);
}

void PoolRanker::freed(WorkerId worker, Time now, std::vector<Grant>& out) {
  view_.freed(worker, now);
  release_held(now);
  place(worker);
  match(now, out);
}

void PoolRanker::set_available(WorkerId worker, bool available, Time now, std::vector<Grant>& out) {
  view_.set_away(worker, !available);
  release_held(now);
  place(worker);
  match(now, out);
}

void PoolRanker::set_reaches(KeyId key, WorkerId worker, bool reaches, Time now,
                             std::vector<Grant>& out) {
  view_.set_reaches(key, worker, reaches);
  look_again();
  release_held(now);
  match(now, out);
}

void PoolRanker::set_rules(const Rules& rules, Time now, std::vector<Grant>& out) {
  rules_ = rules;
  load_until_ = now;
  look_again();
  release_held(now);
  match(now, out);
}

// Something has changed: whoever waits for others' sake is looked at again.
void PoolRanker::release_held(Time now) {
  for (const size_t k : held_) {
    is_held_[k] = false;
    if (later_[k].is_infinite() || decide_at(view_.offers()[k]) > now) continue;
    later_.set(k, Time::infinite());
    set_due(k, true);
  }
  held_.clear();
}

void PoolRanker::match_some(Time now, std::vector<Grant>& out) {
  while (later_.top() <= now) {
    const size_t k = later_.top_index();
    later_.set(k, Time::infinite());
    set_due(k, true);
  }
  while (grant_due(now, out)) {
  }
  if (best_effort_.top().is_infinite() && now < look_again_) return;
  while (grant_best_effort(now, out)) {
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
    if (free_at != kIdle && free_at - delay_(view_.offers()[type.due.top_index()].items) > now)
      continue;
    if (first == nullptr || type.due.top() < first->due.top()) first = &type;
  }
  if (first == nullptr) return false;
  const size_t k = first->due.top_index();
  const Offer& offer = view_.offers()[k];
  const WorkerId next(static_cast<uint32_t>(first->available.top_index()));
  const auto worker = worker_for(offer, next, offer.types);
  if (!worker) {
    hold_until(k, now + kLoadEvery);
    return true;
  }
  Harm harm;
  const bool looks = (rules_.hold || rules_.cap) && !offer.planned;
  if (looks && holds(k, *worker, now, harm)) return true;
  grant(KeyId(static_cast<uint32_t>(k)), *worker, harm, now, out);
  return true;
}

// The first, unless the offer's batch must not run there and others serve on which it may: then the
// lowest of these that is idle, of the types. None: they are busy.
std::optional<WorkerId> PoolRanker::worker_for(const Offer& offer, WorkerId first,
                                               uint32_t types) const {
  if (view_.reaches(offer.key, first)) return first;
  bool others = false;
  for (uint32_t i = 0; i < view_.workers().size(); ++i) {
    const WorkerId worker(i);
    const WorkerView& w = view_.worker(worker);
    if (w.away || (offer.types >> w.type & 1) == 0 || !view_.reaches(offer.key, worker)) continue;
    others = true;
    if ((types >> w.type & 1) != 0 && types_[w.type].available[i] == kIdle) return worker;
  }
  return others ? std::nullopt : std::optional(first);
}

void PoolRanker::hold_until(size_t key, Time until) {
  later_.set(key, until);
  set_due(key, false);
  if (!is_held_[key]) held_.push_back(key);
  is_held_[key] = true;
}

// By what a batch really takes: that of a shared offer is chosen when it is granted.
void PoolRanker::learn(const Answer& answer, Time now) {
  const Offer& offer = view_.offer(granted_to_[answer.worker.index()]);
  if (offer.best_effort) return;
  const WorkerView& w = view_.worker(answer.worker);
  const Time start = w.running == 0 ? now : std::max(now, w.free_at);
  const double run = std::max(answer.free_at - start, kTick).seconds();
  granted_ += run - granted_ * kGrantWeight;
  at_any_time_ += ((offer.at_any_time ? 1 : 0) - at_any_time_) * run / granted_;
}

// Whether an offer waits although it is due, for the sake of others: it would take one of the last
// free workers and make some of them late. It waits as long as it can itself, or until the next
// worker is expected to be free. Where it takes the last one, `harm` says what it does.
bool PoolRanker::holds(size_t key, WorkerId worker, Time now, Harm& harm) {
  const Offer& offer = view_.offers()[key];
  const WorkerView& w = view_.worker(worker);
  const Time start = w.running == 0 ? now : std::max(now, w.free_at);
  uint32_t idle = 0;
  Time next = Time::infinite();
  for (uint32_t type = 0; type < view_.types(); ++type) {
    if ((offer.types >> type & 1) == 0) continue;
    idle += view_.idle(type);
    next = std::min(next, view_.next_free(type, worker));
  }
  const uint32_t left = idle - (w.running == 0 ? 1 : 0);
  if (left > (rules_.last_few ? kMostLeft : 0)) return false;
  const auto late = [&](Duration run) {
    return made_late(view_, offer.key, w.type, start, std::min(next, start + run), left);
  };
  if (late(offer.run) <= rules_.negligible * offer.items) return false;
  const Time until = std::min(offer.urgency, next) - delay_(offer.items);
  if (rules_.hold && !next.is_infinite() && until > now) {
    hold_until(key, until);
    return true;
  }
  if (left > 0 || !rules_.cap) return false;
  harm.run = offer.run;
  for (size_t i = 0; i < kHarmSteps; ++i) {
    harm.late[i] = static_cast<float>(late(offer.run * static_cast<int64_t>(i + 1) / kHarmSteps));
  }
  return false;
}

// Without a deadline a batch must not keep one that has it waiting: it runs only
// if, for as long as it takes, there are workers of its type for all offers that will want one. The
// default's is cut so that it ends before the first of them wants one, or one that may still come;
// where even one item runs longer, it waits until the workers that are left bear these, or until
// what came first has waited for kOverdue of its runs, and so has whoever else had waited so long.
bool PoolRanker::grant_best_effort(Time now, std::vector<Grant>& out) {
  if (look_again_ <= now) look_again();
  if (best_effort_.top().is_infinite()) return false;
  std::vector<Room> rooms(types_.size());
  while (!best_effort_.top().is_infinite()) {
    const size_t key = best_effort_.top_index();
    const Given given = grant_best_effort(KeyId(static_cast<uint32_t>(key)), rooms, now, out);
    if (given != Given::kTooLong) return given == Given::kWorker;
    // Shorter ones behind it may run.
    best_effort_.set(key, Time::infinite());
    too_long_.push_back(key);
    if (look_again_.is_infinite()) look_again_ = now + kLoadEvery;
  }
  return false;
}

void PoolRanker::look_again() {
  look_again_ = Time::infinite();
  for (const size_t k : too_long_) {
    const Offer& offer = view_.offers()[k];
    const bool waits = offer.items > 0 && offer.best_effort && offer.epoch >= epoch_[k];
    if (waits) best_effort_.set(k, offer.urgency);
  }
  too_long_.clear();
}

PoolRanker::Given PoolRanker::grant_best_effort(KeyId key, std::vector<Room>& rooms, Time now,
                                                std::vector<Grant>& out) {
  const Offer& offer = view_.offer(key);
  const bool as_others = offer.outlook.slack.is_infinite() && offer.types == kAnyType;
  Given given = Given::kNothing;
  for (size_t t = types_.size(); t-- > 0;) {
    const Type& type = types_[t];
    if (type.available.top() != kIdle || (offer.types >> t & 1) == 0) continue;
    const WorkerId next(static_cast<uint32_t>(type.available.top_index()));
    const auto found = worker_for(offer, next, 1u << t);
    if (!found) {
      given = Given::kTooLong;
      continue;
    }
    const WorkerId worker = *found;
    Room own;
    Room& room = as_others ? rooms[t] : own;
    if (!room.until) {
      room.until = rules_.best_effort ? free_again_by(view_, key, worker, now) : Time::infinite();
    }
    Time until = *room.until;
    const Duration least = offer.least > Duration() ? offer.least : offer.run;
    bool overdue = false;
    if (rules_.best_effort && now + least > until) {
      if (!room.others_bear) room.others_bear = others_bear(view_, key, worker, now);
      if (!*room.others_bear) {
        if (now - std::max(offer.urgency, overdue_until_) < least * kOverdue) {
          given = Given::kTooLong;
          continue;
        }
        overdue = true;
        until = now + least;
      }
    }
    const Time end = std::min(until, now + offer.run);
    size_t idle = 0, wanted = 0;
    for (size_t w = 0; w < view_.workers().size(); ++w) idle += type.available[w] == kIdle;
    Time first = Time::infinite();
    for (size_t k = 0; k < due_.size(); ++k) {
      if (later_[k] >= end || (view_.offers()[k].types >> t & 1) == 0) continue;
      ++wanted;
      first = std::min(first, later_[k]);
    }
    if (idle <= wanted) {
      if (!rules_.best_effort || offer.least <= Duration() || now + offer.least > first) continue;
      until = first;
    }
    grant(key, worker, Harm(), now, out);
    out.back().until = until;
    if (overdue) overdue_until_ = until;
    return Given::kWorker;
  }
  return given;
}

void PoolRanker::grant(KeyId key, WorkerId worker, const Harm& harm, Time now,
                       std::vector<Grant>& out) {
  if (now >= load_until_) {
    load_ = load(view_, now, rules_);
    load_until_ = now + kLoadEvery;
    for (Burst& burst : bursts_) burst.known = false;
  }
  const WorkerView& w = view_.worker(worker);
  const Offer& offer = view_.offer(key);
  Burst& burst = bursts_[key.index()];
  if (!burst.known || burst.slack != offer.outlook.slack) {
    burst = {true, offer.outlook.slack, load_.burst(offer.outlook.slack, rules_)};
  }
  const Time free_at = w.running == 0 ? now : w.free_at;
  view_.set_granted(worker, true);
  granted_to_[worker.index()] = key;
  place(worker);
  forget(key);
  epoch_[key.index()] = offer.epoch + 1;
  out.push_back({key, worker, w.type, free_at, at_any_time_, offer.epoch, view_.least_slack(key),
                 harm, load_.batched, load_.unbatched, burst.wait});
}

Time PoolRanker::next_wake() const {
  Time wake = std::min(later_.top(), look_again_);
  for (const Type& type : types_) {
    if (type.due.top().is_infinite() || type.available.top().is_infinite()) continue;
    wake =
        std::min(wake, type.available.top() - delay_(view_.offers()[type.due.top_index()].items));
  }
  return wake;
}

Duration PoolRanker::expected_wait(Time now) const {
  Time first = Time::infinite();
  for (uint32_t type = 0; type < view_.types(); ++type) {
    first = std::min(first, view_.idle(type) > 0 ? now : view_.next_free(type));
  }
  if (first.is_infinite()) return Duration::infinite();
  return std::max(first - now, Duration()) + backlog_ / static_cast<int64_t>(view_.serving());
}

}  // namespace fermata::policy
