#include <algorithm>
#include <bit>

#include "policy/batch/instants.h"
#include "policy/ensemble/ensemble_lookahead.h"

namespace fermata::policy {

// What waits shares the batches of the models that it names.
void EnsembleLookahead::price_models() {
  double cheapest = 0;
  time_.clear(problem_->workers[problem_->worker].type, problem_->worker_types.size(),
              problem_->others_price);
  for (Model& model : models_) {
    time_.add(model.latency->tables());
    const LatencyTable& here = latency(model, problem_->worker);
    const auto waiting = static_cast<uint32_t>(problem_->queries.size());
    const uint32_t batch = std::clamp<uint32_t>(waiting, 1, here.max_batch());
    model.cost = here(batch).seconds() / batch;
    model.alone = here(1);
    model.fastest = model.latency->fastest(1);
    cheapest = cheapest == 0 ? model.cost : std::min(cheapest, model.cost);
  }
  dearest_ = cheapest > 0 ? 1 / cheapest : 1;
  alone_.resize(problem_->ensembles.size());
  cost_.resize(alone_.size());
  for (size_t e = 0; e < alone_.size(); ++e) {
    const auto& own = problem_->ensembles[e].models;
    alone_[e].assign(size_t{1} << own.size(), Duration());
    cost_[e].assign(alone_[e].size(), 0);
    for (plan::Subset s = 1; s < alone_[e].size(); ++s) {
      const Model& model = models_[own[std::countr_zero(s)]];
      alone_[e][s] = alone_[e][s & (s - 1)] + model.alone;
      cost_[e][s] = cost_[e][s & (s - 1)] + model.cost;
    }
  }
}

// Each by what its own row says that a model alone earns, of those that have not failed.
void EnsembleLookahead::price_items() {
  const double asked = std::max(time_.others(), sustained_price());
  if (asked == 0) return;
  for (Item& item : items_) {
    const std::vector<uint32_t>& own = models_of(item);
    double earns = 0;
    for (size_t k = 0; k < own.size(); ++k) {
      if (((item.open | item.had) >> k & 1) == 0) continue;
      const double seconds = std::max(models_[own[k]].alone, kTick).seconds();
      earns = std::max(earns, item.utility[size_t{1} << k] / seconds);
    }
    item.least_price = WorkerTime::least(time_.others(), earns);
    item.charged_price = WorkerTime::least(asked, earns);
  }
}

// Below which the workers do not keep up with what comes and what waits for an answer. Rather than
// idle they do what is worth just as much: many queries are alike.
double EnsembleLookahead::sustained_price() {
  double workers = 0;
  for (const plan::PoolProblem::Worker& worker : problem_->workers) {
    workers += time_.seconds_of(worker.type);
  }
  to_come_.assign(problem_->ensembles.size(), {});
  for (const plan::PoolProblem::Query& query : problem_->queries) {
    const bool waits = query.had == 0 && !query.deadline.is_infinite();
    to_come_[query.ensemble].queries += waits ? 1 : 0;
  }
  for (size_t e = 0; e < to_come_.size(); ++e) {
    const plan::PoolProblem::Ensemble& ensemble = problem_->ensembles[e];
    ToCome& to_come = to_come_[e];
    to_come.queries = ensemble.slo.is_infinite()
                          ? 0
                          : WorkerTime::to_keep_up_with(ensemble.rate_rps, to_come.queries,
                                                        std::max(ensemble.slo, kTick));
    to_come.seconds.assign(size_t{1} << ensemble.models.size(), 0);
    for (plan::Subset s = 1; s < to_come.seconds.size(); ++s) {
      const Model& model = models_[ensemble.models[std::countr_zero(s)]];
      const plan::Subset rest = s & (s - 1);
      to_come.seconds[s] =
          rest == 0 ? WorkerTime::seconds_of_item(latency(model, problem_->worker), ensemble.slo)
                    : to_come.seconds[rest] + to_come.seconds[s ^ rest];
    }
  }
  const auto work_at = [this](double price) { return work(price); };
  return WorkerTime::sustained(WorkerTime::kBusy * workers, dearest_, work_at).below;
}

// Seconds of a worker that a second takes, where everybody names a subset at this price. Every bin
// of difficulty is as likely; the last row is of no bin.
double EnsembleLookahead::work(double price) const {
  double sum = 0;
  for (size_t e = 0; e < to_come_.size(); ++e) {
    const plan::PoolProblem::Utilities& rows = *problem_->ensembles[e].utility;
    const std::vector<double>& seconds = to_come_[e].seconds;
    const size_t bins = std::max<size_t>(rows.size() - 1, 1);
    double named = 0;
    for (size_t bin = 0; bin < bins; ++bin) {
      plan::Subset wanted = 0;
      double most = 0;
      for (plan::Subset s = 1; s < seconds.size(); ++s) {
        const double net = rows[bin][s] - price * seconds[s];
        if (net <= most) continue;
        most = net;
        wanted = s;
      }
      named += seconds[wanted];
    }
    sum += to_come_[e].queries * named / static_cast<double>(bins);
  }
  return sum;
}

}  // namespace fermata::policy
