// What the driver does for requests that several models may answer: their data, and who was
// right about it.
#include <algorithm>

#include "simulate/run.h"

namespace fermata::simulate {
namespace {

constexpr double kLeastSlo = 0.1;

// One of them, as often as its share says. No draw where there is one.
template <class Shared>
size_t draw_share(const std::vector<Shared>& from, Random& random) {
  double sum = 0;
  for (const Shared& each : from) sum += each.share;
  double at = from.size() > 1 ? random.uniform() * sum : 0;
  size_t i = 0;
  for (; i + 1 < from.size() && at >= from[i].share; ++i) at -= from[i].share;
  return i;
}

}  // namespace

void Run::add_applications() {
  for (const SimulatedApplication& application : scenario_.applications) {
    policy::ApplicationInfo info{.name = application.name,
                                 .penalty = application.penalty,
                                 .prior = application.prior,
                                 .short_circuit = application.short_circuit};
    for (const SimulatedVariant& variant : application.variants) {
      info.variants.push_back({add_variant(variant), variant.accuracy, variant.recall});
    }
    const KeyId key = scheduler_->add_service(info);
    know(key, application.name);
    Source source{.slo = application.slo,
                  .key = key,
                  .application = &application,
                  .demand = &application.demand};
    std::vector<KeyId> answers;
    for (const policy::ApplicationVariant& variant : info.variants) answers.push_back(variant.key);
    add_to_tree(source, answers, 1);
    const uint64_t stream = scenario_.models.size() + scenario_.applications.size();
    if (!application.examples.empty()) {
      source.examples.emplace(application, Random(scenario_.seed, stream + sources_.size()));
    }
    source.random = Random(scenario_.seed, ~sources_.size());
    add_source(std::move(source), application.share, application.arrival, application.name);
    result_.models.back().application.emplace();
  }
}

void Run::add_ensembles() {
  for (const SimulatedEnsemble& ensemble : scenario_.ensembles) {
    policy::EnsembleInfo info{.name = ensemble.name,
                              .utility = ensemble.utility,
                              .share = ensemble.bins,
                              .serve_all = ensemble.serve_all,
                              .fixed = ensemble.fixed};
    for (const SimulatedVariant& model : ensemble.models) info.models.push_back(add_variant(model));
    const KeyId key = scheduler_->add_service(info);
    know(key, ensemble.name);
    Source source{
        .slo = ensemble.slo_most, .key = key, .ensemble = &ensemble, .demand = &ensemble.demand};
    add_to_tree(source, info.models, 1);
    source.random = Random(scenario_.seed, ~sources_.size());
    add_source(std::move(source), ensemble.share, ensemble.arrival, ensemble.name);
    result_.models.back().ensemble.emplace();
  }
}

// Of a request's deadline from its arrival: of an application never below kLeastSlo of the mean.
Duration Run::draw_slo(Source& source) {
  if (const auto& mix = source.demand->slos; !mix.empty()) {
    return mix[draw_share(mix, source.drawn)].slo;
  }
  const SimulatedApplication* application = source.application;
  if (application == nullptr || application->slo_deviation == Duration()) return source.slo;
  const Duration drawn = source.slo + application->slo_deviation.scaled(source.random.normal());
  return std::max(drawn, source.slo.scaled(kLeastSlo));
}

uint32_t Run::draw_items(const std::vector<Demand::Items>& from, Random& random) {
  return from.empty() ? 1 : from[draw_share(from, random)].items;
}

void Run::arrive_with_example(const policy::Task& task, Source& source, Time now) {
  if (!source.examples) return scheduler_->nominate(task, now, decisions_);
  const Example& example = source.examples->next();
  examples_[task.job] = &example;
  scheduler_->nominate(task, now, decisions_);
  if (!example.evidence.empty() && !source.application->prior.empty()) {
    evidence_[{now + source.application->evidence_delay, task.job}] = task;
  }
}

// Draws what it is like, and until when it has to be answered.
policy::Task Run::ensemble_query(const policy::Task& task, Source& source, Time now) {
  const SimulatedEnsemble& ensemble = *source.ensemble;
  const auto& examples = ensemble.examples;
  queries_[task.job] = &examples[source.random.below(examples.size())];
  policy::Task query = task;
  const Duration spread = ensemble.slo_most - ensemble.slo;
  if (spread > Duration())
    query.deadline = now + ensemble.slo + spread.scaled(source.random.uniform());
  if (ensemble.score_delay) evidence_[{now + *ensemble.score_delay, task.job}] = query;
  return query;
}

void Run::conclude(const policy::Concluded& concluded, Time now) {
  const policy::Task& task = concluded.task;
  mix(task.job.value());
  mix(concluded.ran);
  trace(TraceEvent::kConcluded, task.job, task.key, concluded.ran, now, now);
  const EnsembleExample& example = *queries_.at(task.job);
  queries_.erase(task.job);
  Branch* own = branch(task.job);
  ModelResult& model = result_of(task, own);
  const bool on_time = now <= task.deadline, counts = measured(task, own);
  if (own != nullptr) {
    own->accuracy = example.correct[concluded.ran] ? 1 : 0;
    branch_ended(task.job, policy::Ending::kAnswered, 1, now);
  } else if (counts) {
    --unended_;
    ++(on_time ? model.on_time : model.late);
    model.latency.record(now - task.arrival);
  }
  EnsembleResult& result = *model.ensemble;
  const SimulatedEnsemble& ensemble = *sources_[source_of_[task.key.index()]].ensemble;
  if (!counts || (!on_time && !ensemble.serve_all)) return;
  ++result.answered;
  if (example.correct[concluded.ran]) ++result.correct;
  if (concluded.ran != concluded.planned) ++result.incomplete;
  ++result.subsets[ensemble.subset_name(concluded.ran)];
}

void Run::learn(Time now) {
  const policy::Task task = evidence_.begin()->second;
  evidence_.erase(evidence_.begin());
  if (const auto query = queries_.find(task.job); query != queries_.end()) {
    return scheduler_->learned(task, query->second->difficulty, now, decisions_);
  }
  const auto example = examples_.find(task.job);
  if (example == examples_.end()) return;
  scheduler_->learned(task, example->second->evidence, now, decisions_);
}

// `variant` none: the evidence model itself has answered.
double Run::judge(const policy::Task& task, KeyId variant, Time finish, ModelResult* counted) {
  const SimulatedApplication& application = *sources_[source_of_[task.key.index()]].application;
  const Example* e = nullptr;
  if (const auto example = examples_.find(task.job); example != examples_.end()) {
    e = example->second;
    examples_.erase(example);
  }
  const std::string& name = variant.is_none() ? application.name : names_[variant.index()];
  double right = e != nullptr && e->short_circuit_correct ? 1 : 0;
  for (size_t v = 0; v < application.variants.size(); ++v) {
    if (variant.is_none() || application.variants[v].name != name) continue;
    right = e == nullptr ? application.variants[v].accuracy : e->correct[v] ? 1 : 0;
  }
  if (counted == nullptr) return right;
  ApplicationResult& result = *counted->application;
  ++result.answered;
  variant.is_none() ? ++result.short_circuited : ++result.variants[name];
  result.correct += right;
  if (right == 0) return right;
  const double worth = 1 - application.penalty(task.deadline - task.arrival, finish - task.arrival);
  result.utility += right * worth;
  return right;
}

void Run::short_circuit(const policy::Task& task, Time now) {
  mix(task.job.value());
  trace(TraceEvent::kShortCircuited, task.job, task.key, task.items, now, now);
  Branch* own = branch(task.job);
  ModelResult& model = result_of(task, own);
  const bool counts = measured(task, own);
  if (counts) model.queueing.record(now - task.arrival);
  const double right = judge(task, KeyId::none(), now, counts ? &model : nullptr);
  if (own != nullptr) {
    own->accuracy = right;
    return branch_ended(task.job, policy::Ending::kAnswered, 1, now);
  }
  if (!counts) return;
  --unended_;
  ++(now <= task.deadline ? model.on_time : model.late);
  model.latency.record(now - task.arrival);
}

}  // namespace fermata::simulate
