#include "policy/ensemble_batcher.h"

#include <algorithm>

#include "base/check.h"

namespace fermata::policy {
namespace {

constexpr Duration kTick = Duration::nanos(1);
// After a plan had nothing for a free worker, and nothing has come since.
constexpr Duration kLookAgain = Duration::millis(2);
constexpr Time kLast = Time::from_nanos(Time::infinite().nanos() - 1);  // yet not never

}  // namespace

void EnsembleBatcher::add_worker(uint32_t type, uint32_t running) {
  queries_.add_worker(type, running);
  free_at_.emplace_back();
}

void EnsembleBatcher::set_delay_bound(DelayBound bound) {
  delay_ = bound;
  queries_.set_delay_bound(bound);
}

void EnsembleBatcher::nominated(const Task& task, Time now, Decisions& out) {
  FERMATA_CHECK(task.items == 1);
  queries_.insert(task, now);
  wait_until_ = now;
  queries_.conclude_late(now, out);
  update(now);
}

bool EnsembleBatcher::withdrawn(const Task& task, Time now, Decisions& out) {
  const bool gone = queries_.withdraw(task);
  queries_.conclude_late(now, out);
  update(now);
  return gone;
}

void EnsembleBatcher::scored(const Task& task, const Difficulty& difficulty, Time now,
                             Decisions& out) {
  if (queries_.scored(task, difficulty)) wait_until_ = now;
  queries_.conclude_late(now, out);
  update(now);
}

void EnsembleBatcher::bound(const Batch& batch, Time now) {
  queries_.bind(batch);
  free_at_[batch.worker.index()] = batch.finish;
  update(now);
}

void EnsembleBatcher::freed(WorkerId worker, Time now, Decisions& out) {
  queries_.freed(worker, out);
  queries_.conclude_finished(out);
  queries_.conclude_late(now, out);
  wait_until_ = now;
  update(now);
}

void EnsembleBatcher::tick(Time now, Decisions& out) {
  queries_.conclude_late(now, out);
  update(now);
}

// Who has no answer yet is more urgent than who wants a better one.
void EnsembleBatcher::update(Time now) {
  offer_.items = 0;
  offer_.epoch = epoch_;
  offer_.patient = true;
  offer_.urgency = kLast;
  offer_.start_at = std::max(now, wait_until_);
  for (const EnsembleQueries::Query* query : queries_.by_deadline()) {
    const EnsembleQueries::Ensemble& ensemble = queries_.ensemble(query->ensemble);
    const Subset open = ensemble.all() & ~(query->had() | query->failed);
    if (open == 0) continue;
    ++offer_.items;
    if (query->task.deadline.is_infinite()) break;
    offer_.patient = false;
    const Duration run = queries_.slowest(ensemble.info.models.front())(1);
    if (query->task.deadline - run < now) continue;  // late: nobody's urgency
    if (query->had() != 0) continue;
    offer_.run = run;
    offer_.urgency = query->task.deadline - run;
    break;
  }
}

Answer EnsembleBatcher::granted(const Grant& grant, Time now, Decisions& out) {
  Answer answer{grant.worker, false, grant.free_at};
  if (grant.epoch != epoch_) return answer;
  ++epoch_;
  queries_.conclude_late(now, out);
  const Time start = std::max(now + delay_(1), grant.free_at);
  const EnsembleLookahead::Plan& plan = planner_.follow(queries_, grant.worker, start, free_at_);
  for (const auto& [query, subset] : plan.planned) queries_.plan(*query, subset);
  wait_until_ = start + kTick + kLookAgain;
  if (!plan.queries.empty()) {
    Batch& batch = out.add_batch();
    batch.key = plan.model;
    batch.worker = grant.worker;
    batch.start = start;
    batch.finish = start + plan.run;
    batch.items = static_cast<uint32_t>(plan.queries.size());
    for (const EnsembleQueries::Query* query : plan.queries) batch.tasks.push_back(query->task);
    answer.started = true;
    answer.free_at = batch.finish;
    wait_until_ = Time();
  }
  queries_.conclude_finished(out);
  update(now);
  return answer;
}

void EnsembleBatcher::join_other(Batch& batch, Time limit, const LatencyTable& latency, Time now) {
  const Time run_from = batch.finish - latency(batch.items);
  for (const EnsembleQueries::Query* query : queries_.by_deadline()) {
    if (batch.items >= latency.max_batch()) break;
    const std::vector<KeyId>& models = queries_.ensemble(query->ensemble).info.models;
    const auto at = std::find(models.begin(), models.end(), batch.key);
    if (at == models.end() || (query->pending() >> (at - models.begin()) & 1) == 0) continue;
    const Time finish = run_from + latency(batch.items + 1);
    if (finish > std::min(limit, query->task.deadline)) continue;
    batch.tasks.push_back(query->task);
    ++batch.items;
    batch.finish = finish;
    limit = std::min(limit, query->task.deadline);
  }
  update(now);
}

}  // namespace fermata::policy
