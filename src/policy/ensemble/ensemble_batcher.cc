#include "policy/ensemble/ensemble_batcher.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/check.h"
#include "policy/batch/instants.h"
#include "policy/pool/account.h"

namespace fermata::policy {
namespace {

// Waiting queries that one decision looks at, and that are asked whether they join another's batch.
constexpr size_t kMostPlannedQueries = 64;
constexpr uint32_t kAllEvery = 16;  // decisions
constexpr double kParts = 1e3;      // of utility, or of a second, that meters count

}  // namespace

void EnsembleBatcher::set_delay_bound(DelayBound bound) {
  SharedBatcher::set_delay_bound(bound);
  queries_.set_delay_bound(bound);
}

void EnsembleBatcher::nominated(const Task& task, Time now) {
  FERMATA_CHECK(task.items == 1);
  queries_.insert(task, now);
  declined_.look_again(now);
}

void EnsembleBatcher::learned(const Task& task, const Estimate& estimate, Time now,
                              Decisions& out) {
  const auto* difficulty = std::get_if<Difficulty>(&estimate);
  if (difficulty != nullptr && queries_.scored(task, *difficulty)) declined_.look_again(now);
  const auto* again = std::get_if<Again>(&estimate);
  if (again != nullptr && queries_.returned(task, again->model)) declined_.look_again(now);
  queries_.conclude_late(now, out);
  update(now);
}

void EnsembleBatcher::bound(const Batch& batch, bool, Time now) {
  queries_.bind(batch);
  update(now);
}

bool EnsembleBatcher::ended(const BatchEnd& batch, Time now, Decisions& out) {
  queries_.ended(batch, out);
  freed_at_ = now;
  queries_.conclude_late(now, out);
  declined_.look_again(now);
  update(now);
  return true;
}

void EnsembleBatcher::tick(Time now, Decisions& out) {
  queries_.conclude_finished(out);
  queries_.conclude_late(now, out);
  update(now);
}

// Who has no answer yet is more urgent than who wants a better one; who is late already is
// nobody's urgency. O(log queries).
void EnsembleBatcher::update(Time now) {
  const EnsembleQueries::Lost lost = queries_.take_lost();
  lost_.count(now, static_cast<uint32_t>(std::lround(lost.utility * kParts)));
  missing_.count(now, static_cast<uint32_t>(std::lround(lost.seconds * kParts)));
  // A worker adds no more than it has time for.
  const double workers = std::max(1.0, missing_.per_second() / kParts);
  offer_.outlook.lost = lost_.per_second() / kParts / workers;
  const EnsembleQueries::ByDeadline& open = queries_.open();
  renew(now, open.size());
  offer_.urgency = kLast;
  if (open.empty()) return;
  const auto run_of = [this](const EnsembleQueries::Query* query) {
    return queries_.fastest(queries_.ensemble(query->ensemble));
  };
  offer_.run = run_of(*open.begin());
  if ((*open.begin())->task.deadline.is_infinite()) {
    offer_.least = Duration();
    for (const KeyId model : queries_.ensemble((*open.begin())->ensemble).info.models) {
      offer_.least = std::max(offer_.least, queries_.slowest(model)(1));
    }
    return set_best_effort((*open.begin())->task.arrival, now);
  }
  const EnsembleQueries::ByDeadline& unanswered = queries_.unanswered();
  const bool late = (*open.begin())->task.deadline < now;
  const auto first = late ? unanswered.lower_bound(now) : unanswered.begin();
  if (first == unanswered.end() || (*first)->task.deadline.is_infinite()) return;
  offer_.run = run_of(*first);
  offer_.urgency = (*first)->task.deadline - offer_.run;
  const EnsembleQueries::Query* last = *std::prev(unanswered.lower_bound(Time::infinite()));
  set_waiting(queries_.urgent(), offer_.urgency, last->task.deadline - run_of(last));
}

// Who of them waits, and for what.
void EnsembleBatcher::read_queries(plan::PoolProblem& problem) {
  problem_queries_.clear();
  problem.queries.clear();
  for (EnsembleQueries::Query* query : queries_.open()) {
    if (problem_queries_.size() == kMostPlannedQueries) break;
    const EnsembleQueries::Ensemble& own = queries_.ensemble(query->ensemble);
    const plan::Subset open = own.all() & ~query->closed();
    // Late, it gets its first answer where all are served, and nothing more.
    const bool late = query->task.deadline <= problem.start;
    if (late && (query->had() != 0 || !own.info.serve_all)) continue;
    problem_queries_.push_back(query);
    problem.queries.push_back({.id = std::to_string(query->task.job.value()),
                               .ensemble = query->ensemble,
                               .row = static_cast<uint32_t>(query->utility - own.utility->data()),
                               .arrival = query->task.arrival,
                               .deadline = query->task.deadline,
                               .had = query->had(),
                               .open = open});
  }
}

// Those of the queries, in the order in which they were added, with their models.
void EnsembleBatcher::read_ensembles(plan::PoolProblem& problem) {
  std::vector<std::optional<uint32_t>> place(queries_.ensembles());
  for (const auto& query : problem.queries) place[query.ensemble] = 0;
  problem.ensembles.clear();
  for (uint32_t e = 0; e < place.size(); ++e) {
    if (!place[e]) continue;
    place[e] = static_cast<uint32_t>(problem.ensembles.size());
    const EnsembleQueries::Ensemble& own = queries_.ensemble(e);
    problem.ensembles.push_back({.name = own.info.name,
                                 .models = {},
                                 .serve_all = own.info.serve_all,
                                 .utility = own.utility,
                                 .co_arrivals = own.co_arrivals.value(),
                                 .rate_rps = own.demand.rate_rps(problem.start),
                                 .spread = own.demand.slo().is_infinite()
                                               ? Duration()
                                               : own.demand.slo().scaled(own.co_arrivals.spread()),
                                 .slo = own.demand.slo(),
                                 .last = own.co_arrivals.last()});
  }
  problem.models.clear();
  model_keys_.clear();
  for (auto& query : problem.queries) {
    const EnsembleInfo& info = queries_.ensemble(query.ensemble).info;
    query.ensemble = *place[query.ensemble];
    std::vector<uint32_t>& models = problem.ensembles[query.ensemble].models;
    if (!models.empty()) continue;
    for (const KeyId key : info.models) {
      const auto known = std::find(model_keys_.begin(), model_keys_.end(), key);
      models.push_back(static_cast<uint32_t>(known - model_keys_.begin()));
      if (known != model_keys_.end()) continue;
      model_keys_.push_back(key);
      problem.models.push_back({pool_.info(key).name, pool_.info(key).latency});
    }
  }
}

void EnsembleBatcher::read_problem(WorkerId worker, Time start, Time now,
                                   plan::PoolProblem& problem) {
  problem.start = start;
  const std::vector<WorkerView>& workers = pool_.workers();
  problem.workers.clear();
  for (uint32_t w = 0; w < workers.size(); ++w) {
    if (workers[w].away && w != worker.index()) continue;
    if (w == worker.index()) problem.worker = static_cast<uint32_t>(problem.workers.size());
    problem.workers.push_back({std::to_string(w), workers[w].type, workers[w].free_at});
  }
  auto& types = problem.worker_types;
  while (types.size() < pool_.types()) types.push_back(std::to_string(types.size()));
  read_queries(problem);
  read_ensembles(problem);
  problem.others_price = price(pool_, offer_.key, now);
  problem.last_price = planner_.last_price();
  problem.last_style = planner_.last_style();
  problem.last_tried = planner_.last_tried();
  if (problem.queries.empty()) return;
  problem.try_all = decisions_++ % kAllEvery == 0;
  kept_.keep();
}

bool EnsembleBatcher::decide(const Grant& grant, Time start, Time now, Decisions& out) {
  queries_.conclude_late(now, out);
  plan::PoolProblem& problem = kept_.next();
  read_problem(grant.worker, start, now, problem);
  const plan::PoolPlan& plan = planner_.plan(problem);
  for (const auto& each : plan.planned) {
    EnsembleQueries::Query& query = *problem_queries_[each.query];
    query.wanted = each.wanted;
    queries_.plan(query, each.subset);
  }
  const bool starts = !plan.queries.empty();
  if (!starts) {
    declined_.decline(grant.worker_type, now, start + kTick + kLookAgain);
  } else {
    Batch& batch = out.add_batch();
    batch.rule = StartRule::kChosen;
    batch.key = model_keys_[*plan.model];
    batch.worker = grant.worker;
    batch.start = start;
    batch.finish = start + plan.run;
    // The nearest deadlines stay, where others need the worker before all of it would end.
    const LatencyTable& latency = pool_.latency(batch.key, grant.worker);
    const auto planned = static_cast<uint32_t>(plan.queries.size());
    batch.items = fitting(latency, planned, batch.finish);
    batch.finish = batch.finish + (latency(batch.items) - latency(planned));
    for (uint32_t i = 0; i < batch.items; ++i) {
      batch.tasks.push_back(problem_queries_[plan.queries[i]]->task);
    }
  }
  queries_.conclude_finished(out);
  return starts;
}

void EnsembleBatcher::join_other(Batch& batch, Time limit, const LatencyTable& latency, Time now) {
  const Time run_from = batch.finish - latency(batch.items);
  size_t asked = 0;
  for (const EnsembleQueries::Query* query : queries_.by_deadline()) {
    if (batch.items >= latency.max_batch() || asked++ == kMostPlannedQueries) break;
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
