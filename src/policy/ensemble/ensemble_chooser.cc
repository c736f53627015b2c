#include "policy/ensemble/ensemble_chooser.h"

#include <algorithm>

#include "base/check.h"
#include "policy/batch/instants.h"

namespace fermata::policy {
namespace {

constexpr size_t kMostAsked = 64;  // queries, whether they join another's batch

}  // namespace

void EnsembleChooser::set_delay_bound(DelayBound bound) {
  delay_ = bound;
  queries_.set_delay_bound(bound);
}

void EnsembleChooser::nominated(const Task& task, Time now, Decisions& out) {
  FERMATA_CHECK(task.items == 1);
  queries_.insert(task, now);
  declined_.look_again(now);
  queries_.conclude_late(now, out);
  update(now);
}

bool EnsembleChooser::withdrawn(const Task& task, Time now, Decisions& out) {
  const bool gone = queries_.withdraw(task);
  queries_.conclude_late(now, out);
  update(now);
  return gone;
}

void EnsembleChooser::learned(const Task& task, const Estimate& estimate, Time now,
                              Decisions& out) {
  const auto* difficulty = std::get_if<Difficulty>(&estimate);
  if (difficulty != nullptr && queries_.scored(task, *difficulty)) declined_.look_again(now);
  queries_.conclude_late(now, out);
  update(now);
}

void EnsembleChooser::bound(const Batch& batch, bool, Time now) {
  queries_.bind(batch);
  update(now);
}

bool EnsembleChooser::freed(WorkerId worker, Time now, Decisions& out) {
  queries_.freed(worker, out);
  queries_.conclude_finished(out);
  queries_.conclude_late(now, out);
  declined_.look_again(now);
  update(now);
  return true;
}

void EnsembleChooser::tick(Time now, Decisions& out) {
  queries_.conclude_late(now, out);
  update(now);
}

// Who has no answer yet is more urgent than who wants a better one; who is late already is
// nobody's urgency. O(log queries), and those that run.
void EnsembleChooser::update(Time now) {
  const auto& queries = queries_.by_deadline();
  const auto wants_more = [this](const EnsembleQueries::Query* query) {
    const plan::Subset taken = query->had() | query->failed;
    return taken != queries_.ensemble(query->ensemble).all();
  };
  offer_.epoch = epoch_;
  offer_.types = declined_.types(now);
  offer_.start_at = std::max(now, declined_.from());
  uint32_t run_for = 0;
  auto any = queries.begin();
  for (; any != queries.end() && !wants_more(*any); ++any) ++run_for;
  offer_.items = static_cast<uint32_t>(queries.size()) - run_for;
  offer_.patient = any != queries.end() && (*any)->task.deadline.is_infinite();
  offer_.urgency = kLast;
  if (any == queries.end()) return;
  const auto run_of = [this](const EnsembleQueries::Query* query) {
    Duration fastest = Duration::infinite();
    for (const KeyId model : queries_.ensemble(query->ensemble).info.models) {
      fastest = std::min(fastest, queries_.slowest(model)(1));
    }
    return fastest;
  };
  offer_.run = run_of(*any);
  const bool late = (*any)->task.deadline < now;
  for (auto it = late ? queries.lower_bound(now) : any;
       it != queries.end() && !(*it)->task.deadline.is_infinite(); ++it) {
    if ((*it)->had() != 0 || !wants_more(*it)) continue;
    offer_.run = run_of(*it);
    offer_.urgency = (*it)->task.deadline - offer_.run;
    return;
  }
}

Answer EnsembleChooser::granted(const Grant& grant, Time now, Decisions& out) {
  Answer answer{grant.worker, false, grant.free_at};
  if (grant.epoch != epoch_) return answer;
  ++epoch_;
  queries_.conclude_late(now, out);
  const Time start = std::max(now + delay_(1), grant.free_at);
  const EnsembleLookahead::Plan& plan = planner_.follow(queries_, grant.worker, start);
  for (const auto& [query, subset] : plan.planned) queries_.plan(*query, subset);
  if (plan.queries.empty()) {
    declined_.decline(grant.worker_type, now, start + kTick + kLookAgain);
  } else {
    Batch& batch = out.add_batch();
    batch.key = plan.model;
    batch.worker = grant.worker;
    batch.start = start;
    batch.finish = start + plan.run;
    batch.items = static_cast<uint32_t>(plan.queries.size());
    for (const EnsembleQueries::Query* query : plan.queries) batch.tasks.push_back(query->task);
    answer.started = true;
    answer.free_at = batch.finish;
    declined_.used();
  }
  queries_.conclude_finished(out);
  update(now);
  return answer;
}

void EnsembleChooser::join_other(Batch& batch, Time limit, const LatencyTable& latency, Time now) {
  const Time run_from = batch.finish - latency(batch.items);
  size_t asked = 0;
  for (const EnsembleQueries::Query* query : queries_.by_deadline()) {
    if (batch.items >= latency.max_batch() || asked++ == kMostAsked) break;
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
