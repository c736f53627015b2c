#include "policy/ensemble/ensemble_queries.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "base/check.h"
#include "policy/batch/instants.h"

namespace fermata::policy {
namespace {

constexpr uint32_t kNoModel = 32;
// Any answer is worth more than none: where nothing is refused, nobody waits for ever for what a
// profile calls worthless.
constexpr double kLeastUtility = 1e-4;

// Of the ensemble's models, or kNoModel.
uint32_t model_of(const EnsembleInfo& info, KeyId key) {
  const auto it = absl::c_find(info.models, key);
  return it == info.models.end() ? kNoModel : static_cast<uint32_t>(it - info.models.begin());
}

}  // namespace

void EnsembleQueries::add_ensemble(KeyId key, const EnsembleInfo& info) {
  FERMATA_CHECK(!info.models.empty() && info.utility.size() == info.share.size());
  for (const auto& row : info.utility) FERMATA_CHECK(row.size() == size_t{1} << info.models.size());
  uint32_t at = 0;  // of a removed one, if there is any
  while (at < ensembles_.size() && !ensembles_[at].key.is_none()) ++at;
  if (at == ensembles_.size()) ensembles_.emplace_back();
  plan::PoolProblem::Utilities worthy = info.utility;
  for (auto& row : worthy) {
    for (plan::Subset s = 1; s < row.size(); ++s) row[s] = std::max(row[s], kLeastUtility);
  }
  const std::vector<double> mean = mean_utility(worthy, info.share);
  for (auto& row : worthy) {
    for (plan::Subset s = 1; s < row.size(); ++s) row[s] += doubt_ * (mean[s] - row[s]);
  }
  worthy.push_back(mean);
  ensembles_[at] = {.key = key, .info = info, .utility = {}, .co_arrivals = {}, .by_deadline = {}};
  ensembles_[at].info.utility.clear();
  ensembles_[at].utility = std::make_shared<const plan::PoolProblem::Utilities>(std::move(worthy));
  ensemble_of_[key] = at;
}

void EnsembleQueries::remove(KeyId key) {
  FERMATA_CHECK(waiting_items(key) == 0);
  const auto it = ensemble_of_.find(key);
  ensembles_[it->second] = {};
  ensemble_of_.erase(it);
}

EnsembleQueries::Query& EnsembleQueries::insert(const Task& task, Time now) {
  const uint32_t at = ensemble_of_.at(task.key);
  Ensemble& ensemble = ensembles_[at];
  ensemble.demand.count(task, now);
  ensemble.co_arrivals.count(now, ensemble.demand.slo());
  auto entry = std::make_unique<Entry>();
  entry->query.task = task;
  entry->query.ensemble = at;
  entry->query.utility = &ensemble.utility->back();
  Query& query = entry->query;
  by_deadline_.insert(&query);
  ensemble.by_deadline.insert(&query);
  ensemble.items += task.items;
  place(query);
  set_moment(*entry);
  const bool is_new = queries_.emplace(task.job, std::move(entry)).second;
  FERMATA_CHECK(is_new);
  return query;
}

Duration EnsembleQueries::fastest(const Ensemble& ensemble, uint32_t items) const {
  Duration least = Duration::infinite();
  for (const KeyId model : ensemble.info.models) {
    least = std::min(least, pool_.info(model).latency.fastest(items));
  }
  return least;
}

Outlook EnsembleQueries::outlook(Time now) const {
  std::vector<Outlook> each;
  for (const Ensemble& ensemble : ensembles_) {
    Duration share = Duration::infinite();
    for (const KeyId model : ensemble.info.models) {
      for (const LatencyByType::Table& table : pool_.info(model).latency.tables()) {
        share = std::min(share, share_of_batch(*table, ensemble.demand.slo()));
      }
    }
    each.push_back(ensemble.demand.outlook(fastest(ensemble), share));
  }
  return merged(each, now);
}

EnsembleQueries::Query* EnsembleQueries::find(JobId job) {
  const auto it = queries_.find(job);
  return it == queries_.end() ? nullptr : &it->second->query;
}

bool EnsembleQueries::scored(const Task& task, const Difficulty& difficulty) {
  Query* query = find(task.job);
  if (query == nullptr || query->difficulty) return false;
  const auto& rows = *ensembles_[query->ensemble].utility;
  query->difficulty = difficulty;
  if (difficulty.bin < rows.size() - 1) query->utility = &rows[difficulty.bin];
  return true;
}

void EnsembleQueries::plan(Query& query, plan::Subset planned) {
  query.planned = (planned & ~query.failed) | query.had();
  if (query.running == 0 && query.done != 0) maybe_finished_.push_back(query.task.job);
}

bool EnsembleQueries::withdraw(const Task& task) {
  const auto it = queries_.find(task.job);
  if (it == queries_.end()) return false;
  Entry& entry = *it->second;
  if (entry.query.running == 0) {
    forget(entry);
    return true;
  }
  entry.query.withdrawn = true;
  entry.query.planned = entry.query.had();
  set_moment(entry);
  stop_waiting(entry.query);
  return false;
}

void EnsembleQueries::bind(const Batch& batch) {
  const WorkerView& worker = pool_.worker(batch.worker);
  Running running{batch.key, {}};
  for (const Task& task : batch.tasks) {
    if (task.key == batch.key) {
      if (const auto own = queries_.find(task.job); own != queries_.end()) forget(*own->second);
      continue;
    }
    if (!is_ensemble(task.key)) continue;
    Entry& entry = *queries_.at(task.job);
    Query& query = entry.query;
    const uint32_t model = model_of(ensembles_[query.ensemble].info, batch.key);
    const plan::Subset bit = plan::Subset{1} << model;
    FERMATA_CHECK(model != kNoModel && (query.closed() & bit) == 0);
    query.running |= bit;
    query.planned |= bit;
    place(query);
    set_moment(entry);
    running.queries.push_back(task.job);
  }
  if (running.queries.empty()) return;
  running_[{batch.worker, worker.ended + worker.running}] = std::move(running);
}

bool EnsembleQueries::returned(const Task& task, KeyId model) {
  const auto it = queries_.find(task.job);
  if (it == queries_.end()) return false;
  Query& query = it->second->query;
  const plan::Subset bit = plan::Subset{1} << model_of(ensembles_[query.ensemble].info, model);
  if ((query.away & bit) == 0) return false;
  query.away &= ~bit;
  query.planned |= bit;  // until it is decided anew
  place(query);
  return true;
}

void EnsembleQueries::unanswered(const Running& running, JobId job, plan::Subset Query::*as) {
  Query* query = find(job);
  if (query == nullptr) return;
  const EnsembleInfo& info = ensembles_[query->ensemble].info;
  const plan::Subset bit = plan::Subset{1} << model_of(info, running.model);
  query->running &= ~bit;
  query->*as |= bit;
  query->planned &= ~bit;
  place(*query);
}

void EnsembleQueries::ended(const BatchEnd& batch, Decisions& out) {
  const auto running = running_.find({batch.worker, pool_.worker(batch.worker).ended});
  if (running == running_.end()) return;
  const Running ended = std::move(running->second);
  running_.erase(running);
  for (const Task& task : batch.failed) unanswered(ended, task.job, &Query::failed);
  for (const Task& task : batch.away) unanswered(ended, task.job, &Query::away);
  for (const JobId job : ended.queries) {
    const auto it = queries_.find(job);
    if (it == queries_.end()) continue;
    Entry& entry = *it->second;
    Query& query = entry.query;
    const plan::Subset bit = plan::Subset{1}
                             << model_of(ensembles_[query.ensemble].info, ended.model);
    if (((query.failed | query.away) & bit) == 0) {
      query.running &= ~bit;
      query.done |= bit;
    }
    if (query.running == 0 && query.withdrawn) {
      conclude(entry, out);
      continue;
    }
    set_moment(entry);
    if (query.running == 0) maybe_finished_.push_back(job);
  }
}

void EnsembleQueries::conclude_finished(Decisions& out) {
  for (const JobId job : maybe_finished_) {
    const auto it = queries_.find(job);
    if (it == queries_.end()) continue;
    const Query& query = it->second->query;
    const bool nothing_works = query.failed == ensembles_[query.ensemble].all();
    const bool answered = query.done != 0 && query.pending() == 0 && query.away == 0;
    if (query.running == 0 && (answered || nothing_works)) conclude(*it->second, out);
  }
  maybe_finished_.clear();
}

void EnsembleQueries::conclude_late(Time now, Decisions& out) {
  while (!moments_.empty() && moments_.begin()->first <= now) {
    Entry& entry = *queries_.at(moments_.begin()->second);
    if (entry.query.done != 0) {
      conclude(entry, out, /*at_last=*/true);
      continue;
    }
    const Query& query = entry.query;
    const Duration run = fastest(ensembles_[query.ensemble], query.task.items);
    give_up(entry.query, Duration(), run, out);
  }
}

void EnsembleQueries::give_up(Query& query, Duration wait, Duration run, Decisions& out) {
  Entry& entry = *queries_.at(query.task.job);
  if (query.failed != 0) return conclude(entry, out);
  out.dropped.push_back({query.task, wait, run, delay_(query.task.items)});
  count_lost(query);
  forget(entry);
}

// With some answer a query waits until its deadline at most, without any until none can come.
Time EnsembleQueries::moment_of(const Query& query) const {
  const Time deadline = query.task.deadline;
  if (query.withdrawn || deadline.is_infinite()) return Time::infinite();
  const EnsembleInfo& info = ensembles_[query.ensemble].info;
  if (info.serve_all && waits_for_plan_) return Time::infinite();
  if (query.done != 0) return deadline - delay_(0);
  if (query.running != 0 || info.serve_all) return Time::infinite();
  const Duration least = fastest(ensembles_[query.ensemble], query.task.items);
  return deadline - least - delay_(query.task.items) + kTick;
}

void EnsembleQueries::place(Query& query) {
  const bool open = !query.withdrawn && query.closed() != ensembles_[query.ensemble].all();
  if (open) {
    open_.insert(&query);
  } else {
    open_.erase(&query);
  }
  set_unanswered(query, open && query.had() == 0);
}

void EnsembleQueries::set_unanswered(Query& query, bool unanswered) {
  const bool changes =
      unanswered ? unanswered_.insert(&query).second : unanswered_.erase(&query) > 0;
  if (!changes || query.task.deadline.is_infinite()) return;
  urgent_ = unanswered ? urgent_ + 1 : urgent_ - 1;
}

void EnsembleQueries::set_moment(Entry& entry) {
  const Time moment = moment_of(entry.query);
  if (moment == entry.moment) return;
  if (!entry.moment.is_infinite()) moments_.erase({entry.moment, entry.query.task.job});
  entry.moment = moment;
  if (!moment.is_infinite()) moments_.insert({moment, entry.query.task.job});
}

void EnsembleQueries::count_lost(const Query& query) {
  if (query.withdrawn) return;
  const std::vector<KeyId>& models = ensembles_[query.ensemble].info.models;
  plan::Subset could = query.done;
  double seconds = 0;
  for (uint32_t k = 0; k < models.size(); ++k) {
    const plan::Subset bit = plan::Subset{1} << k;
    const LatencyTable& latency = slowest(models[k]);
    if (((could | query.failed | query.away) & bit) != 0) continue;
    const Duration alone = pool_.info(models[k]).latency.fastest(1);
    if (query.task.arrival + alone > query.task.deadline) continue;
    could |= bit;
    seconds += latency(latency.max_batch()).seconds() / latency.max_batch();
  }
  const double gain = (*query.utility)[could] - (*query.utility)[query.done];
  if (gain <= 0) return;
  lost_.utility += gain;
  lost_.seconds += seconds;
}

void EnsembleQueries::conclude(Entry& entry, Decisions& out, bool at_last) {
  const Query& query = entry.query;
  count_lost(query);
  const plan::Subset planned = query.planned | query.closed();
  out.concluded.push_back({query.task, query.done, planned, query.failed, query.wanted, at_last});
  forget(entry);
}

void EnsembleQueries::forget(Entry& entry) {
  if (!entry.moment.is_infinite()) moments_.erase({entry.moment, entry.query.task.job});
  stop_waiting(entry.query);
  ensembles_[entry.query.ensemble].items -= entry.query.task.items;
  queries_.erase(entry.query.task.job);
}

void EnsembleQueries::stop_waiting(Query& query) {
  for (ByDeadline* all : {&by_deadline_, &open_}) all->erase(&query);
  set_unanswered(query, false);
  ensembles_[query.ensemble].by_deadline.erase(&query);
}

uint64_t EnsembleQueries::waiting_items(KeyId key) const {
  const auto at = ensemble_of_.find(key);
  return at == ensemble_of_.end() ? 0 : ensembles_[at->second].items;
}

}  // namespace fermata::policy
