#include "policy/queue_batcher.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "policy/instants.h"

namespace fermata::policy {
namespace {

constexpr Duration kLately = Duration::seconds(1);  // since a task came, as slack() means it

}  // namespace

QueueBatcher::QueueBatcher(KeyId key, KeyInfo info, DelayBound delay)
    : key_(key), info_(std::move(info)), delay_(delay), budget_(info_.slo) {
  offer_.key = key;
  make_levels();
}

void QueueBatcher::make_levels() {
  by_type_.clear();
  levels_.clear();
  const std::vector<LatencyByType::Table>& tables = info_.latency.tables();
  for (const auto& table : tables) by_type_.emplace_back(table, delay_);
  levels_.push_back({kAnyType, {info_.latency.slowest(), delay_}});
  std::vector<uint32_t> left(tables.size());
  std::iota(left.begin(), left.end(), 0u);
  std::stable_sort(left.begin(), left.end(),
                   [&](uint32_t a, uint32_t b) { return (*tables[a])(1) < (*tables[b])(1); });
  for (left.pop_back(); !left.empty(); left.pop_back()) {
    std::vector<LatencyByType::Table> own;
    uint32_t types = 0;
    for (const uint32_t type : left) {
      own.push_back(tables[type]);
      types |= 1u << type;
    }
    levels_.push_back({types, {LatencyByType(std::move(own)).slowest(), delay_}});
  }
  level_ = std::min(level_, levels_.size() - 1);
  times_ = &levels_[level_].times;
}

void QueueBatcher::choose_level(Time now) {
  size_t level = 0;
  const Task& head = queue_[0];
  while (level + 1 < levels_.size() &&
         now > levels_[level].times.decide_by(head.deadline, head.items)) {
    ++level;
  }
  times_ = &levels_[level].times;
  if (std::exchange(level_, level) != level) retarget();
}

Time QueueBatcher::latest_alone(const Task& task) const {
  Time latest = by_type_[0].decide_by(task.deadline, task.items);
  for (size_t type = 1; type < by_type_.size(); ++type) {
    latest = std::max(latest, by_type_[type].decide_by(task.deadline, task.items));
  }
  return latest;
}

void QueueBatcher::set_delay_bound(DelayBound bound) {
  delay_ = bound;
  make_levels();
}

void QueueBatcher::set_latency(LatencyByType latency, Time now, Decisions& out) {
  info_.latency = std::move(latency);
  make_levels();
  refuse_after_ = now;  // a bound that always holds: the next update looks at every task
  retarget();
  update(now, out);
}

void QueueBatcher::nominated(const Task& task, Time now, Decisions& out) {
  FERMATA_CHECK(task.items >= 1 && task.items <= levels_[0].times.max_batch());
  if (rate_.count(now, task.items)) retarget();
  if (task.deadline.is_infinite()) {
    patient_.insert(task);
  } else {
    queue_.insert(task);
    last_urgent_ = now;
    refuse_after_ = std::min(refuse_after_, latest_alone(task));
    if (info_.slo.is_infinite()) {
      const Duration own = task.deadline - task.arrival;
      budget_ = budget_.is_infinite() ? own : budget_ + (own - budget_) / 16;
    }
  }
  variation_.count(now, task.items, budget_);
  update(now, out);
}

Duration QueueBatcher::slack(Time now) const {
  const bool lately = !last_urgent_.is_infinite() && now - last_urgent_ <= kLately;
  return lately && !budget_.is_infinite() ? std::max(budget_ - info_.latency.fastest(1), Duration())
                                          : Duration::infinite();
}

bool QueueBatcher::withdrawn(const Task& task, Time now, Decisions& out) {
  if (!(task.deadline.is_infinite() ? patient_ : queue_).erase(task)) return false;
  update(now, out);
  return true;
}

void QueueBatcher::update(Time now, Decisions& out) {
  if (now > refuse_after_) refuse_hopeless(now, out);
  Cut c;
  if (!queue_.empty()) {
    choose_level(now);
    c = cut({now, now});
    refuse_first(c.drop, out);
  }
  if (queue_.empty()) {
    refuse_after_ = Time::infinite();
    offer_patient(now);
  } else {
    offer_urgent(c, now);
  }
}

// Single items are in the order of their last moments, so the head is enough;
// with larger tasks among them any may be first.
void QueueBatcher::refuse_hopeless(Time now, Decisions& out) {
  while (!queue_.empty() && now > latest_alone(queue_[0])) refuse_first(1, out);
  refuse_after_ = Time::infinite();
  if (queue_.empty()) return;
  refuse_after_ = latest_alone(queue_[0]);
  if (queue_.items_from(0) == queue_.size()) return;
  for (size_t i = 1; i < queue_.size();) {
    const Task task = queue_[i];
    if (now > latest_alone(task)) {
      refuse(task, out);
      queue_.erase_at(i);
    } else {
      refuse_after_ = std::min(refuse_after_, latest_alone(task));
      ++i;
    }
  }
}

void QueueBatcher::refuse_first(size_t n, Decisions& out) {
  for (; n > 0; --n) {
    refuse(queue_[0], out);
    queue_.pop_front();
  }
}

void QueueBatcher::refuse(const Task& task, Decisions& out) {
  refused();
  out.dropped.push_back({task, Duration(), task.deadline - latest_alone(task)});
}

void QueueBatcher::offer_urgent(const Cut& c, Time now) {
  FERMATA_CHECK(c.take > 0);
  const Time deadline = queue_[0].deadline;
  offer_.items = static_cast<uint32_t>(queue_.items(0, c.take));
  offer_.patient = false;
  offer_.types = levels_[level_].types;
  offer_.run = times_->run(offer_.items);
  offer_.epoch = epoch_;
  schedule(deadline, now, offer_);
  if (queue_.items_from(0) == queue_.size()) refuse_after_ = latest_alone(queue_[0]);
  const Time valid_until = times_->decide_by(deadline, offer_.items);
  wake_ = std::max(std::min(valid_until, refuse_after_), now) + kTick;
}

void QueueBatcher::offer_patient(Time now) {
  const size_t n = patient_.most_within(0, levels_[0].times.max_batch());
  offer_.items = static_cast<uint32_t>(patient_.items(0, n));
  offer_.patient = true;
  offer_.types = kAnyType;
  offer_.run = n == 0 ? Duration() : levels_[0].times.run(offer_.items);
  offer_.epoch = epoch_;
  offer_.start_at = now;
  offer_.urgency = n == 0 ? Time::infinite() : patient_[0].arrival;
  wake_ = Time::infinite();
}

Answer QueueBatcher::granted(const Grant& grant, Time now, Decisions& out) {
  Answer answer{grant.worker, false, grant.free_at};
  if (grant.epoch != epoch_) return answer;
  ++epoch_;
  learned(grant);
  if (now > refuse_after_) refuse_hopeless(now, out);
  const Moment m{now, std::max(now, grant.free_at)};
  const BatchTimes& times = times_on(grant.worker_type);
  Cut c;
  // Another type of worker may still save a head that is late on this one.
  const bool spared = !queue_.empty() && by_type_.size() > 1 &&
                      times.finish(queue_[0].items, m) > queue_[0].deadline;
  if (!queue_.empty() && !spared) {
    times_ = &times;
    c = cut(m);
    refuse_first(c.drop, out);
  }
  if (c.take > 0 || !patient_.empty()) {
    Batch& batch = out.add_batch();
    batch.key = key_;
    batch.worker = grant.worker;
    fill(c, times, m, batch);
    batch.start = times.start(batch.items, m);
    batch.finish = batch.start + times.run(batch.items);
    ran(batch.items);
    answer.started = true;
    answer.free_at = batch.finish;
  }
  times_ = &levels_[level_].times;
  update(now, out);
  if (spared) offer_.types &= ~(1u << grant.worker_type);
  return answer;
}

void QueueBatcher::join(Batch& batch, uint32_t type, Time limit, Time now, Decisions& out) {
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
  take(patient_);
  update(now, out);
}

// The cut's tasks, then those without deadline as far as they make nobody late.
void QueueBatcher::fill(const Cut& c, const BatchTimes& times, const Moment& m, Batch& batch) {
  const uint32_t most =
      c.take > 0 && !patient_.empty() ? times.largest(queue_[0].deadline, m) : times.max_batch();
  batch.items = 0;
  for (size_t i = 0; i < c.take; ++i) {
    batch.items += queue_[0].items;
    batch.tasks.push_back(queue_[0]);
    queue_.pop_front();
  }
  while (!patient_.empty() && batch.items + patient_[0].items <= most) {
    batch.items += patient_[0].items;
    batch.tasks.push_back(patient_[0]);
    patient_.pop_front();
  }
}

}  // namespace fermata::policy
