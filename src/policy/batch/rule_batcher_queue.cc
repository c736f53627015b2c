#include "policy/batch/rule_batcher.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/check.h"
#include "policy/batch/instants.h"

namespace fermata::policy {
namespace {

constexpr size_t kFewLarger = 64;

}  // namespace

RuleBatcher::RuleBatcher(const Rules& rules, KeyId key, KeyInfo info, DelayBound delay)
    : rules_(rules),
      key_(key),
      info_(std::move(info)),
      delay_(delay),
      slowest_(info_.latency.slowest(), delay),
      counted_(slowest_),
      budget_(info_.slo) {
  offer_.key = key;
  set_delay_bound(delay);
  retarget();
}

void RuleBatcher::set_delay_bound(DelayBound bound) {
  delay_ = bound;
  by_type_.clear();
  for (const auto& table : info_.latency.tables()) by_type_.emplace_back(table, bound);
  alike_ = by_type_.size() == 1;
  slowest_ = counted_ = BatchTimes(info_.latency.slowest(), bound);
  counted_types_ = kAnyType;
  fastest_ = info_.latency.fastest(1);
  offer_.outlook.alone = slowest_.run(1);
  alone_ = offer_.outlook.alone + slowest_.delay(1);
  find_larger();
  retime();
}

uint32_t RuleBatcher::types_for(const Task& task, Time now) const {
  uint32_t types = 0;
  for (size_t type = 0; type < by_type_.size(); ++type) {
    if (now <= by_type_[type].decide_by(task.deadline, task.items)) types |= 1u << type;
  }
  return types;
}

void RuleBatcher::count_with(uint32_t types) {
  if (types == counted_types_) return;
  std::vector<LatencyByType::Table> tables;
  for (size_t type = 0; type < by_type_.size(); ++type) {
    if ((types >> type & 1) != 0) tables.push_back(info_.latency.tables()[type]);
  }
  counted_ = BatchTimes(LatencyByType(std::move(tables)).slowest(), delay_);
  counted_types_ = types;
  retime();
  retarget();
}

Time RuleBatcher::latest_on_any_type(const Task& task) const {
  Time latest = by_type_[0].decide_by(task.deadline, task.items);
  for (size_t type = 1; type < by_type_.size(); ++type) {
    latest = std::max(latest, by_type_[type].decide_by(task.deadline, task.items));
  }
  return latest;
}

void RuleBatcher::set_latency(LatencyByType latency, Time now, Decisions& out) {
  info_.latency = std::move(latency);
  set_delay_bound(delay_);
  refuse_after_ = now;  // a bound that always holds
  retarget();
  update(now, out);
}

void RuleBatcher::nominated(const Task& task, Time now) {
  FERMATA_CHECK(task.items >= 1 && task.items <= slowest_.max_batch());
  if (task.deadline.is_infinite()) {
    best_effort_.insert(task);
  } else {
    queue_.insert(task);
    if (task.items > 1) remember_larger(task);
    const Time latest = latest_alone(task);
    refuse_after_ = std::min(refuse_after_, latest);
    // Nothing is done, and kept, for whom nothing could save.
    if (latest >= task.arrival) expect_more_like(task, now);
  }
}

inline void RuleBatcher::expect_more_like(const Task& task, Time now) {
  if (rate_.count(now, task.items)) retarget();
  last_urgent_ = now;
  if (info_.slo.is_infinite()) {
    const Duration own = task.deadline - task.arrival;
    budget_ = budget_.is_infinite() ? own : budget_ + (own - budget_) / 16;
  }
  variation_.count(now, task.items, budget_);
}

inline Duration RuleBatcher::slack(Time now) const {
  const bool lately = has_come_lately(rate_.per_second(), last_urgent_, now);
  return lately && !budget_.is_infinite() ? std::max(budget_ - fastest_, Duration())
                                          : Duration::infinite();
}

bool RuleBatcher::withdrawn(const Task& task) {
  return (task.deadline.is_infinite() ? best_effort_ : queue_).erase(task);
}

void RuleBatcher::update(Time now, Decisions& out) {
  // A longer latency or delay leaves no bound behind for tasks that it makes infeasible.
  const bool longer = !alike() && !queue_.empty() && types_for(queue_[0], now) == 0;
  if (now > refuse_after_ || longer) refuse_infeasible(now, out);
  Cut c;
  if (!queue_.empty()) {
    if (!alike()) count_with(types_for(queue_[0], now));
    c = cut({now, now});
    if (alike()) refuse_first(c.drop, out);
  }
  expect(now);
  growth_.length(queue_.size(), now, tasks_rate());
  if (queue_.empty()) {
    refuse_after_ = Time::infinite();
    offer_best_effort(now);
  } else {
    offer_urgent(c, now);
  }
  wants_from_ = offer_.items == 0       ? Time::infinite()
                : offer_.start_at > now ? offer_.start_at
                                        : std::min(wants_from_, now);
}

// Single items are in the order of their last moments, so the head is enough; with larger tasks
// among them any of these may be first. O(log(queue)) for each that is refused.
void RuleBatcher::refuse_infeasible(Time now, Decisions& out) {
  while (!queue_.empty() && now > latest_alone(queue_[0])) refuse_first(1, out);
  while (!larger_.empty() && now > larger_.front().latest) {
    std::pop_heap(larger_.begin(), larger_.end(), std::greater<>());
    const Task task = std::move(larger_.back().task);
    larger_.pop_back();
    if (queue_.erase(task)) refuse(task, out);
  }
  if (queue_.empty()) larger_.clear();
  refuse_after_ = queue_.empty() ? Time::infinite() : latest_alone(queue_[0]);
  if (!larger_.empty()) refuse_after_ = std::min(refuse_after_, larger_.front().latest);
}

void RuleBatcher::remember_larger(const Task& task) {
  if (larger_.size() > 2 * queue_.size() + kFewLarger) return find_larger();
  larger_.push_back({latest_alone(task), task});
  std::push_heap(larger_.begin(), larger_.end(), std::greater<>());
}

void RuleBatcher::find_larger() {
  larger_.clear();
  for (size_t i = 0; i < queue_.size(); ++i) {
    if (queue_[i].items > 1) larger_.push_back({latest_alone(queue_[i]), queue_[i]});
  }
  std::make_heap(larger_.begin(), larger_.end(), std::greater<>());
}

inline void RuleBatcher::refuse_first(size_t n, Decisions& out) {
  for (; n > 0; --n) {
    refuse(queue_[0], out);
    queue_.pop_front();
  }
}

void RuleBatcher::refuse(const Task& task, Decisions& out) {
  const Duration allowance = delay_(task.items);
  const Duration run = task.deadline - latest_alone(task) - allowance;
  const Dropped& dropped = out.dropped.emplace_back(Dropped{task, Duration(), run, allowance});
  if (!dropped.infeasible()) refused();
}

inline void RuleBatcher::offer_urgent(const Cut& c, Time now) {
  FERMATA_CHECK(c.take > 0);
  const Task& head = queue_[0];
  const size_t first = alike() ? 0 : c.drop;
  const uint64_t all = queue_.items_from(0);
  const bool whole = first == 0 && c.take == queue_.size();
  offer_.items = static_cast<uint32_t>(whole ? all : queue_.items(first, c.take));
  offer_.outlook.waiting = offer_.items;
  offer_.best_effort = false;
  offer_.types = counted_types_;
  offer_.run = times_->run(offer_.items);
  offer_.epoch = epoch_;
  schedule(head, now);
  if (!alike()) {
    const uint32_t behind = types_for(queue_[queue_.size() - 1], now);
    if ((behind & ~offer_.types) != 0) offer_.start_at = now;
    offer_.types |= behind;
  }
  if (all == queue_.size()) refuse_after_ = offer_.outlook.first_by;
  Time valid_until = head.deadline - (offer_.run + times_->delay(offer_.items));
  if (first > 0) {
    valid_until = std::min(times_->decide_by(queue_[first].deadline, offer_.items),
                           times_->decide_by(head.deadline, head.items));
  }
  wake_ = std::max(std::min(valid_until, refuse_after_), now) + kTick;
}

// What the pool's account has to know of those that wait and of those that will come.
inline void RuleBatcher::expect(Time now) {
  Outlook& outlook = offer_.outlook;
  outlook.rate = rate_.per_second();
  outlook.seen = last_urgent_;
  outlook.variation = variation_.value();
  outlook.slack = slack(now);
  if (queue_.empty()) return;
  outlook.first_by = latest_alone(queue_[0]);
  outlook.last_by = latest_alone(queue_[queue_.size() - 1]);
}

void RuleBatcher::offer_best_effort(Time now) {
  const size_t n = best_effort_.most_within(0, slowest_.max_batch());
  offer_.items = static_cast<uint32_t>(best_effort_.items(0, n));
  offer_.best_effort = true;
  offer_.rule = StartRule::kBestEffort;
  offer_.types = kAnyType;
  offer_.run = n == 0 ? Duration() : slowest_.run(offer_.items);
  offer_.least = n == 0 ? Duration() : slowest_.run(best_effort_[0].items);
  offer_.epoch = epoch_;
  offer_.start_at = now;
  offer_.urgency = n == 0 ? Time::infinite() : best_effort_[0].arrival;
  wake_ = Time::infinite();
}

// Where the first that the worker ends in time waits: its tasks are in the order of their
// deadlines, so for single items nobody behind is late.
size_t RuleBatcher::first_in_time(const BatchTimes& times, const Moment& m) const {
  size_t low = 0, high = queue_.size();
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (times.finish(1, m) <= queue_[middle].deadline) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  while (low < queue_.size() && times.finish(queue_[low].items, m) > queue_[low].deadline) ++low;
  return low;
}

// Which tasks the worker gets: `take` from `first` on. Who is late on it, or has to give way to a
// larger batch, stays for workers of other types that can still save them.
void RuleBatcher::take_for(uint32_t type, const Moment& m, size_t& first, size_t& take,
                           Decisions& out) {
  const BatchTimes& times = times_on(type);
  if (!alike()) first = first_in_time(times, m);
  if (first == queue_.size()) return;
  if (first > 0) {
    take = queue_.most_within(first, times.largest(queue_[first].deadline, m));
    return;
  }
  times_ = &times;
  const Cut c = cut(m);
  times_ = &counted_;
  take = c.take;
  if (times.decide_by(queue_[0].deadline, queue_[0].items) >= latest_alone(queue_[0])) {
    refuse_first(c.drop, out);
  } else {
    first = c.drop;
  }
}

Answer RuleBatcher::granted(const Grant& grant, Time now, Decisions& out) {
  Answer answer{grant.worker, false, grant.free_at};
  if (grant.epoch != epoch_) return answer;
  ++epoch_;
  learn(grant);
  if (now > refuse_after_) refuse_infeasible(now, out);
  const Moment m{now, std::max(now, grant.free_at)};
  const BatchTimes& times = times_on(grant.worker_type);
  size_t first = 0, take = 0;
  if (!queue_.empty()) take_for(grant.worker_type, m, first, take, out);
  if (take > 1) take = cap(first, take);
  const bool spared = take == 0 && !queue_.empty();
  if (take > 0 || (!spared && !best_effort_.empty())) {
    Batch& batch = out.add_batch();
    batch.key = key_;
    batch.worker = grant.worker;
    batch.rule = take == 0 ? StartRule::kBestEffort : offer_.rule;
    batch.wanted = std::exchange(wants_from_, Time::infinite());
    fill(first, take, times, m, grant.until, batch);
    batch.start = times.start(batch.items, m);
    batch.finish = batch.start + times.run(batch.items);
    ran(batch.items);
    answer.started = true;
    answer.free_at = batch.finish;
  }
  update(now, out);
  if (spared) offer_.types &= ~(1u << grant.worker_type);
  return answer;
}

void RuleBatcher::join(Batch& batch, uint32_t type, Time limit, Time now, Decisions& out) {
  const BatchTimes& times = times_on(type);
  const Time run_from = batch.finish - times.run(batch.items);
  const auto take = [&](TaskQueue& queue) {
    while (!queue.empty()) {
      const Task& task = queue[0];
      const uint32_t items = batch.items + task.items;
      if (items > times.max_batch()) return;
      const Time finish = run_from + times.run(items);
      if (finish > std::min(limit, task.deadline)) return;
      limit = std::min(limit, task.deadline);
      batch.items = items;
      batch.finish = finish;
      batch.tasks.push_back(task);
      queue.pop_front();
    }
  };
  take(queue_);
  take(best_effort_);
  update(now, out);
}

// `take` tasks from `first` on, then those without deadline as far as they make nobody late.
void RuleBatcher::fill(size_t first, size_t take, const BatchTimes& times, const Moment& m,
                       Time until, Batch& batch) {
  uint32_t most = times.max_batch();
  if (!best_effort_.empty()) {
    until =
        take > 0 ? queue_[first].deadline : std::max(until, times.finish(best_effort_[0].items, m));
    if (!until.is_infinite()) most = times.largest(until, m);
  }
  batch.items = 0;
  for (; take > 0; --take) {
    batch.items += queue_[first].items;
    batch.tasks.push_back(queue_[first]);
    if (first == 0) {
      queue_.pop_front();
    } else {
      queue_.erase_at(first);
    }
  }
  while (!best_effort_.empty() && batch.items + best_effort_[0].items <= most) {
    batch.items += best_effort_[0].items;
    batch.tasks.push_back(best_effort_[0]);
    best_effort_.pop_front();
  }
}

}  // namespace fermata::policy
