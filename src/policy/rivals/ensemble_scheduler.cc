#include "policy/rivals/ensemble_scheduler.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/algorithm/container.h"

namespace fermata::policy {
namespace {

constexpr uint64_t kDecisionSteps = 100'000;  // some hundred microseconds

plan::EnsemblePolicy planner_of(EnsembleMethod method) {
  switch (method) {
    case EnsembleMethod::kGreedyEdf:
      return plan::EnsemblePolicy::kGreedyEdf;
    case EnsembleMethod::kGreedyFifo:
      return plan::EnsemblePolicy::kGreedyFifo;
    case EnsembleMethod::kGreedySjf:
      return plan::EnsemblePolicy::kGreedySjf;
    default:
      return plan::EnsemblePolicy::kDp;
  }
}

}  // namespace

EnsembleScheduler::EnsembleScheduler(EnsembleMethod method, double delta) : method_(method) {
  task_.problem.delta = delta;
  task_.policy = planner_of(method);
  task_.problem.max_steps = kDecisionSteps;
}

KeyId EnsembleScheduler::add_key(KeyInfo info) {
  const KeyId key = pool_.new_key();
  queries_.add_ensemble(key,
                        {.name = info.name, .models = {key}, .utility = {{0, 1}}, .share = {1}});
  pool_.add_model(key, std::move(info));
  models_.push_back(key);
  deploy();
  return key;
}

KeyId EnsembleScheduler::add_service(const ServiceInfo& info) {
  const KeyId key = pool_.new_key();
  queries_.add_ensemble(key, std::get<EnsembleInfo>(info));
  deploy();
  return key;
}

void EnsembleScheduler::remove_key(KeyId key) {
  queries_.remove(key);
  if (pool_.is_model(key)) pool_.remove_model(key);
  std::erase(models_, key);
  homes_.erase(key);
  pool_.free_key(key);
}

void EnsembleScheduler::update_latency(KeyId key, LatencyByType latency, Time, Decisions&) {
  pool_.set_latency(key, std::move(latency));
}

void EnsembleScheduler::set_delay_bound(DelayBound bound) {
  delay_ = bound;
  queries_.set_delay_bound(bound);
}

WorkerId EnsembleScheduler::add_worker(Time, Decisions&, uint32_t type, int64_t) {
  const WorkerId worker = pool_.add_worker(type);
  queues_.emplace_back();
  deploy();
  return worker;
}

// Where each base model runs from now on; what is queued stays where it is.
void EnsembleScheduler::deploy() {
  if (queues_.empty()) return;
  std::vector<KeyId> deployed;
  const auto add = [&deployed](KeyId model) {
    if (!absl::c_linear_search(deployed, model)) deployed.push_back(model);
  };
  for (uint32_t e = 0; e < queries_.ensembles(); ++e) {
    const EnsembleInfo& info = queries_.ensemble(e).info;
    if (info.models.size() < 2) continue;
    for (size_t k = 0; k < info.models.size(); ++k) {
      const bool left_out =
          method_ == EnsembleMethod::kStatic && info.fixed != 0 && (info.fixed >> k & 1) == 0;
      if (!left_out) add(info.models[k]);
    }
  }
  const size_t of_ensembles = deployed.size();
  for (const KeyId model : models_) add(model);
  homes_.clear();
  for (size_t i = 0; i < deployed.size(); ++i) {
    homes_[deployed[i]] = {WorkerId(static_cast<uint32_t>(i % queues_.size()))};
  }
  if (plans()) return;
  for (size_t w = of_ensembles; of_ensembles > 0 && w < queues_.size(); ++w) {
    const auto load = [this](KeyId model) {
      return queries_.slowest(model)(1).seconds() / static_cast<double>(homes_.at(model).size());
    };
    const KeyId busiest =
        *std::max_element(deployed.begin(), deployed.begin() + static_cast<ptrdiff_t>(of_ensembles),
                          [&load](KeyId a, KeyId b) { return load(a) < load(b); });
    homes_.at(busiest).push_back(WorkerId(static_cast<uint32_t>(w)));
  }
}

bool EnsembleScheduler::any_idle(uint32_t ensemble) const {
  return absl::c_any_of(queries_.ensemble(ensemble).info.models,
                        [this](KeyId model) { return idle(model); });
}

// When the worker has done all that it runs and has queued.
Time EnsembleScheduler::end_of(WorkerId worker, Time now) const {
  const Time start = now + delay_(1);
  return (is_idle(worker) ? start : std::max(pool_.worker(worker).free_at, start)) +
         queues_[worker.index()].runs;
}

void EnsembleScheduler::nominate(const Task& task, Time now, Decisions& out) {
  Query& query = queries_.insert(task, now);
  const EnsembleQueries::Ensemble& ensemble = queries_.ensemble(query.ensemble);
  if (plans()) {
    if (any_idle(query.ensemble)) start_at_once(query, now, out);
  } else if (method_ == EnsembleMethod::kSelected && ensemble.info.models.size() > 1) {
    return;  // until the selector has seen it
  } else {
    const bool fixed = method_ == EnsembleMethod::kStatic && ensemble.info.fixed != 0;
    dispatch(query, fixed ? ensemble.info.fixed : ensemble.all(), now, out);
  }
}

void EnsembleScheduler::learned(const Task& task, const Estimate& estimate, Time now,
                                Decisions& out) {
  const auto* difficulty = std::get_if<Difficulty>(&estimate);
  if (difficulty == nullptr || !queries_.scored(task, *difficulty)) return;
  if (plans()) return replan(now, out);
  Query& query = *queries_.find(task.job);
  if (method_ != EnsembleMethod::kSelected || query.planned != 0) return;
  const plan::Subset all = queries_.ensemble(query.ensemble).all();
  const plan::Subset selected = difficulty->selected & all;
  dispatch(query, selected != 0 ? selected : all, now, out);
}

// Where none of the models that were to answer a query is left, the others are.
void EnsembleScheduler::replace(JobId failed, Time now, Decisions& out) {
  Query* query = queries_.find(failed);
  if (query == nullptr || query->had() != 0 || query->pending() != 0) return;
  dispatch(*query, queries_.ensemble(query->ensemble).all() & ~query->failed, now, out);
}

bool EnsembleScheduler::withdraw(const Task& task, Time, Decisions&) {
  return queries_.withdraw(task);
}

void EnsembleScheduler::ended(const BatchEnd& end, Time now, Decisions& out) {
  // As published, what has no answer has failed.
  std::vector<Task> without(end.failed.begin(), end.failed.end());
  without.insert(without.end(), end.away.begin(), end.away.end());
  const BatchEnd batch(end.worker, without);
  queries_.ended(batch, out);
  pool_.freed(batch.worker, now);
  queries_.conclude_finished(out);
  queries_.conclude_late(now, out);
  if (plans()) return replan(now, out);
  for (const Task& task : batch.failed) replace(task.job, now, out);
  serve_queue(batch.worker.index(), now, out);
}

void EnsembleScheduler::tick(Time now, Decisions& out) { queries_.conclude_late(now, out); }

// "If a query arrives when there are idling models" (section VIII): the best of those.
void EnsembleScheduler::start_at_once(Query& query, Time now, Decisions& out) {
  const EnsembleQueries::Ensemble& ensemble = queries_.ensemble(query.ensemble);
  plan::Subset possible = 0;
  for (size_t k = 0; k < ensemble.info.models.size(); ++k) {
    if (idle(ensemble.info.models[k])) possible |= plan::Subset{1} << k;
  }
  plan::Subset best = 0;
  for (plan::Subset s = possible; s != 0; s = (s - 1) & possible) {
    if (query.gain(s) <= query.gain(best)) continue;
    if (ensemble.info.serve_all || now + run_of(query, s) <= query.task.deadline) best = s;
  }
  queries_.plan(query, best);
  release(query, now, out);
}

// Of all of these models, those of one worker one after the other.
Duration EnsembleScheduler::run_of(const Query& query, plan::Subset subset) const {
  const std::vector<KeyId>& models = queries_.ensemble(query.ensemble).info.models;
  Duration longest;
  for (plan::Subset rest = subset; rest != 0; rest &= rest - 1) {
    const WorkerId worker = home(models[static_cast<size_t>(std::countr_zero(rest))]);
    Duration run = delay_(query.task.items);
    for (size_t k = 0; k < models.size(); ++k) {
      const bool here = (subset >> k & 1) != 0 && home(models[k]) == worker;
      if (here) run += pool_.latency(models[k], worker)(query.task.items);
    }
    longest = std::max(longest, run);
  }
  return longest;
}

void EnsembleScheduler::replan(Time now, Decisions& out) {
  for (uint32_t e = 0; e < queries_.ensembles(); ++e) {
    const EnsembleQueries::Ensemble& ensemble = queries_.ensemble(e);
    if (ensemble.key.is_none() || !any_idle(e)) continue;
    ensemble.info.models.size() == 1 ? start_by_deadline(e, now, out) : plan(e, now, out);
  }
  queries_.conclude_finished(out);
}

void EnsembleScheduler::read_problem(uint32_t ensemble, Time now) {
  const EnsembleInfo& info = queries_.ensemble(ensemble).info;
  const Time start = now + delay_(1);
  task_.problem.models.resize(info.models.size());
  for (size_t k = 0; k < info.models.size(); ++k) {
    const WorkerId worker = home(info.models[k]);
    const WorkerView& w = pool_.worker(worker);
    task_.problem.models[k].name = pool_.info(info.models[k]).name;
    task_.problem.models[k].latency = pool_.latency(info.models[k], worker)(1);
    task_.problem.models[k].busy =
        w.running > 0 ? std::max(w.free_at - start, Duration()) : Duration();
    task_.problem.models[k].worker = std::to_string(worker.value());
  }
  task_.problem.queries.resize(planned_.size());
  for (size_t i = 0; i < planned_.size(); ++i) {
    const Query& query = *planned_[i];
    plan::EnsembleQuery& q = task_.problem.queries[i];
    q.deadline = query.task.deadline - start;
    q.arrival = query.task.arrival - start;
    q.difficulty = query.difficulty ? query.difficulty->score : 0;
    q.utility.assign(query.utility->size(), 0);
    const plan::Subset taken = query.had() | query.failed;
    for (plan::Subset s = 1; s < q.utility.size(); ++s) {
      if ((s & taken) == 0) q.utility[s] = std::max(0.0, query.gain(s));
    }
  }
}

// Of a single model, whose tasks may have any number of items: the first that is on time.
void EnsembleScheduler::start_by_deadline(uint32_t ensemble, Time now, Decisions& out) {
  const KeyId model = queries_.ensemble(ensemble).info.models.front();
  for (Query* query : queries_.ensemble(ensemble).by_deadline) {
    const uint32_t items = query->task.items;
    const Time end = now + delay_(items) + pool_.latency(model, home(model))(items);
    if (end > query->task.deadline) continue;
    return start(*query, model, home(model), now, out);
  }
}

void EnsembleScheduler::plan(uint32_t ensemble, Time now, Decisions& out) {
  planned_.clear();
  const size_t most =
      std::min(kMostPlanned, kMostSubsets / (queries_.ensemble(ensemble).all() + 1));
  for (Query* query : queries_.ensemble(ensemble).by_deadline) {
    if (planned_.size() == most) break;
    planned_.push_back(query);
  }
  if (planned_.empty()) return;
  read_problem(ensemble, now);
  kept_.next() = task_;
  kept_.keep();
  const plan::EnsemblePlan& plan = planner_.plan(task_.problem, task_.policy);
  for (const uint32_t i : plan.unserved) queries_.plan(*planned_[i], planned_[i]->had());
  for (const auto& served : plan.plan) {
    Query& query = *planned_[served.query];
    queries_.plan(query, served.subset | query.had());
  }
  if (queries_.ensemble(ensemble).info.serve_all) serve_the_late(ensemble, plan);
  for (const auto& served : plan.plan) release(*planned_[served.query], now, out);
  for (const uint32_t i : plan.unserved) release(*planned_[i], now, out);
}

// Nothing can be on time for them: behind the others each gets the model that ends first.
void EnsembleScheduler::serve_the_late(uint32_t ensemble, const plan::EnsemblePlan& plan) {
  const size_t models = queries_.ensemble(ensemble).info.models.size();
  backlog_.clear();
  for (const plan::BaseModel& model : task_.problem.models) backlog_.push_back(model.busy);
  for (const auto& served : plan.plan) {
    for (size_t k = 0; k < models; ++k) {
      if (served.subset >> k & 1) backlog_[k] += task_.problem.models[k].latency;
    }
  }
  for (const uint32_t i : plan.unserved) {
    Query& query = *planned_[i];
    if (query.had() != 0) continue;
    size_t first = models;
    for (size_t k = 0; k < models; ++k) {
      if (query.failed >> k & 1) continue;
      const bool sooner =
          first == models || backlog_[k] + task_.problem.models[k].latency <
                                 backlog_[first] + task_.problem.models[first].latency;
      if (sooner) first = k;
    }
    if (first == models) continue;
    backlog_[first] += task_.problem.models[first].latency;
    queries_.plan(query, plan::Subset{1} << first);
  }
}

// To those of its models that are idle.
void EnsembleScheduler::release(Query& query, Time now, Decisions& out) {
  const std::vector<KeyId>& models = queries_.ensemble(query.ensemble).info.models;
  const plan::Subset pending = query.pending();
  for (size_t k = 0; k < models.size(); ++k) {
    if ((pending >> k & 1) == 0 || !idle(models[k])) continue;
    start(query, models[k], home(models[k]), now, out);  // a query of one model is gone then
  }
}

void EnsembleScheduler::dispatch(Query& query, plan::Subset subset, Time now, Decisions& out) {
  const EnsembleInfo& info = queries_.ensemble(query.ensemble).info;
  std::vector<std::pair<WorkerId, Queued>> places;
  const auto end_behind_these = [&](WorkerId worker) {
    Time end = end_of(worker, now);
    for (const auto& [other, queued] : places) end = other == worker ? end + queued.run : end;
    return end;
  };
  Time finish;
  Duration longest;
  for (size_t k = 0; k < info.models.size(); ++k) {
    if ((subset >> k & 1) == 0) continue;
    const KeyId model = info.models[k];
    const WorkerId worker = *absl::c_min_element(homes_.at(model), [&](WorkerId a, WorkerId b) {
      return end_behind_these(a) < end_behind_these(b);
    });
    const Duration run = pool_.latency(model, worker)(query.task.items);
    finish = std::max(finish, end_behind_these(worker) + run);
    longest = std::max(longest, run);
    places.push_back({worker, {query.task.job, model, run}});
  }
  if (finish > query.task.deadline && !info.serve_all) {
    const Duration allowance = delay_(query.task.items);
    const Duration wait = std::max(Duration(), finish - now - longest - allowance);
    return queries_.give_up(query, wait, longest, out);
  }
  queries_.plan(query, subset);
  for (const auto& [worker, queued] : places) {
    queues_[worker.index()].tasks.push_back(queued);
    queues_[worker.index()].runs += queued.run;
    serve_queue(worker.index(), now, out);
  }
}

void EnsembleScheduler::serve_queue(size_t w, Time now, Decisions& out) {
  const WorkerId worker(static_cast<uint32_t>(w));
  Queue& queue = queues_[w];
  while (is_idle(worker) && !queue.tasks.empty()) {
    const Queued next = queue.tasks.front();
    queue.tasks.pop_front();
    queue.runs -= next.run;
    Query* query = queries_.find(next.job);
    if (query == nullptr || query->withdrawn) continue;
    start(*query, next.model, worker, now, out);
  }
}

void EnsembleScheduler::start(Query& query, KeyId model, WorkerId id, Time now, Decisions& out) {
  Batch& batch = out.add_batch();
  batch.rule = StartRule::kChosen;
  batch.key = model;
  batch.worker = id;
  batch.start = now + delay_(query.task.items);
  batch.finish = batch.start + pool_.latency(model, id)(query.task.items);
  batch.items = query.task.items;
  batch.tasks.push_back(query.task);
  queries_.bind(batch);
  pool_.bound(id, batch.finish);
}

}  // namespace fermata::policy
