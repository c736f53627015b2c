// What the driver does for requests that several models may answer: their data, and who was
// right about it.
#include <algorithm>

#include "simulate/run.h"

namespace fermata::simulate {
namespace {

constexpr double kLeastSlo = 0.1;

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
    const KeyId key = scheduler_->add_application(info);
    know(key, application.name);
    Source source{.slo = application.slo, .key = key, .application = &application};
    const uint64_t stream = scenario_.models.size() + scenario_.applications.size();
    source.examples.emplace(application, Random(scenario_.seed, stream + sources_.size()));
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
    const KeyId key = scheduler_->add_ensemble(info);
    know(key, ensemble.name);
    Source source{.slo = ensemble.slo_most, .key = key, .ensemble = &ensemble};
    source.random = Random(scenario_.seed, ~sources_.size());
    add_source(std::move(source), ensemble.share, ensemble.arrival, ensemble.name);
    result_.models.back().ensemble.emplace();
  }
}

// Of a request's deadline from its arrival: of an application never below kLeastSlo of the mean.
Duration Run::draw_slo(Source& source) {
  const SimulatedApplication* application = source.application;
  if (application == nullptr || application->slo_deviation == Duration()) return source.slo;
  const Duration drawn = source.slo + application->slo_deviation.scaled(source.random.normal());
  return std::max(drawn, source.slo.scaled(kLeastSlo));
}

void Run::arrive_with_example(const policy::Task& task, Source& source, Time now) {
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
  if (options_.trace != nullptr) {
    options_.trace->push_back({TraceEvent::kConcluded, concluded.ran, place(task.key),
                               WorkerId::none(), task.job, now, now, now});
  }
  const EnsembleExample& example = *queries_.at(task.job);
  queries_.erase(task.job);
  if (!measured(task.arrival)) return;
  --unended_;
  const size_t at = source_of_[task.key.index()];
  ModelResult& model = result_.models[at];
  const bool on_time = now <= task.deadline;
  ++(on_time ? model.on_time : model.late);
  model.latency.record(now - task.arrival);
  EnsembleResult& result = *model.ensemble;
  const SimulatedEnsemble& ensemble = *sources_[at].ensemble;
  if (!on_time && !ensemble.serve_all) return;
  ++result.answered;
  if (example.correct[concluded.ran]) ++result.correct;
  if (concluded.ran != concluded.planned) ++result.incomplete;
  ++result.subsets[ensemble.subset_name(concluded.ran)];
}

void Run::learn(Time now) {
  const policy::Task task = evidence_.begin()->second;
  evidence_.erase(evidence_.begin());
  if (const auto query = queries_.find(task.job); query != queries_.end()) {
    return scheduler_->scored(task, query->second->difficulty, now, decisions_);
  }
  const auto example = examples_.find(task.job);
  if (example == examples_.end()) return;
  scheduler_->learned(task, example->second->evidence, now, decisions_);
}

// `variant` none: the evidence model itself has answered.
void Run::judge(const policy::Task& task, KeyId variant, Time finish) {
  const size_t at = source_of_[task.key.index()];
  const SimulatedApplication& application = *sources_[at].application;
  ApplicationResult& result = *result_.models[at].application;
  const auto example = examples_.find(task.job);
  const Example& e = *example->second;
  examples_.erase(example);
  if (!measured(task.arrival)) return;
  ++result.answered;
  bool correct = e.short_circuit_correct;
  if (variant.is_none()) {
    ++result.short_circuited;
  } else {
    const std::string& name = names_[variant.index()];
    ++result.variants[name];
    for (size_t v = 0; v < application.variants.size(); ++v) {
      if (application.variants[v].name == name) correct = e.correct[v];
    }
  }
  if (!correct) return;
  ++result.correct;
  result.utility += 1 - application.penalty(task.deadline - task.arrival, finish - task.arrival);
}

void Run::short_circuit(const policy::Task& task, Time now) {
  mix(task.job.value());
  if (options_.trace != nullptr) {
    options_.trace->push_back({TraceEvent::kShortCircuited, task.items, place(task.key),
                               WorkerId::none(), task.job, now, now, now});
  }
  ModelResult& model = result_.models[source_of_[task.key.index()]];
  if (measured(task.arrival)) {
    --unended_;
    ++(now <= task.deadline ? model.on_time : model.late);
    model.latency.record(now - task.arrival);
    model.queueing.record(now - task.arrival);
  }
  judge(task, KeyId::none(), now);
}

}  // namespace fermata::simulate
