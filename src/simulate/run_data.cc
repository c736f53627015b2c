// What the driver does for requests that several models may answer: their data, and who was
// right about it.
#include <algorithm>
#include <bit>

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

const std::string& Run::Source::name() const {
  if (pipeline != nullptr) return pipeline->name;
  return ensemble != nullptr ? ensemble->name : variants->name;
}

// The keys of its variants, where batches of theirs answer.
policy::ServiceInfo Run::info_of(const Source& source, const std::vector<KeyId>& answers) {
  if (const SimulatedEnsemble* ensemble = source.ensemble) {
    return policy::EnsembleInfo{.name = ensemble->name,
                                .models = answers,
                                .utility = ensemble->utility,
                                .share = ensemble->bins,
                                .serve_all = ensemble->serve_all,
                                .fixed = ensemble->fixed};
  }
  const SimulatedVariants& service = *source.variants;
  policy::VariantsInfo info{.name = service.name,
                            .penalty = service.penalty,
                            .prior = service.prior,
                            .short_circuit = service.short_circuit};
  for (size_t v = 0; v < service.variants.size(); ++v) {
    const SimulatedVariant& variant = service.variants[v];
    const KeyId key = answers.empty() ? KeyId::none() : answers[v];
    info.variants.push_back({key, variant.accuracy, variant.recall});
  }
  return info;
}

// Of a variants service or ensemble, the source that is added next: batches of its own variants, or
// other services.
void Run::add_answers(Source& source) {
  std::vector<KeyId> answers;
  const bool composite = has_services(source.models());
  for (const SimulatedVariant& member : source.models()) {
    composite ? source.members.push_back(member.service) : answers.push_back(add_variant(member));
  }
  if (composite) return;
  source.key = scheduler_->add_service(info_of(source, answers));
  know(source.key, source.name(), sources_.size());
  add_to_tree(source, answers, 1);
  source.answers = std::move(answers);
}

void Run::add_variants_services() {
  for (const SimulatedVariants& service : scenario_.variants) {
    Source source{.slo = service.slo, .variants = &service, .demand = &service.demand};
    add_answers(source);
    const uint64_t stream = scenario_.models.size() + scenario_.variants.size();
    if (!service.examples.empty()) {
      source.examples.emplace(service, Random(scenario_.seed, stream + sources_.size()));
    }
    source.random = Random(scenario_.seed, ~sources_.size());
    add_source(std::move(source), service.share, service.arrival, service.name);
    result_.models.back().variants.emplace();
  }
}

void Run::add_ensembles() {
  for (const SimulatedEnsemble& ensemble : scenario_.ensembles) {
    Source source{.slo = ensemble.slo_most, .ensemble = &ensemble, .demand = &ensemble.demand};
    add_answers(source);
    source.random = Random(scenario_.seed, ~sources_.size());
    add_source(std::move(source), ensemble.share, ensemble.arrival, ensemble.name);
    result_.models.back().ensemble.emplace();
  }
}

// Of a request's deadline from its arrival: of a variants service never below kLeastSlo of the
// mean.
Duration Run::draw_slo(Source& source) {
  if (const auto& mix = source.demand->slos; !mix.empty()) {
    return mix[draw_share(mix, source.drawn)].slo;
  }
  const SimulatedVariants* service = source.variants;
  if (service == nullptr || service->slo_deviation == Duration()) return source.slo;
  const Duration drawn = source.slo + service->slo_deviation.scaled(source.random.normal());
  return std::max(drawn, source.slo.scaled(kLeastSlo));
}

uint32_t Run::draw_items(const std::vector<Demand::Items>& from, Random& random) {
  return from.empty() ? 1 : from[draw_share(from, random)].items;
}

void Run::draw(policy::Task& task, Source& source, Time now) {
  if (source.examples) {
    const Example& example = source.examples->next(now);
    examples_[task.job] = &example;
    if (!example.evidence.empty() && !source.variants->prior.empty()) {
      evidence_[{now + source.variants->evidence_delay, task.job}] = task;
    }
  }
  if (source.ensemble == nullptr) return;
  const SimulatedEnsemble& ensemble = *source.ensemble;
  queries_[task.job] = &ensemble.examples[source.random.below(ensemble.examples.size())];
  const Duration spread = ensemble.slo_most - ensemble.slo;
  if (spread > Duration())
    task.deadline = now + ensemble.slo + spread.scaled(source.random.uniform());
  if (ensemble.score_delay) evidence_[{now + *ensemble.score_delay, task.job}] = task;
}

void Run::conclude(const policy::Concluded& concluded, Time now) {
  const policy::Task& task = concluded.task;
  if (source_of(task).ensemble == nullptr) return short_circuit(task, now);
  mix(task.job.value());
  mix(concluded.ran);
  trace(TraceEvent::kConcluded, task.job, task.key, concluded.ran, now, now);
  Branch* own = branch(task.job);
  ModelResult& model = result_of(task, own);
  const bool counts = measured(task, own);
  const Time answered = replied(now, own);
  const double right =
      judge(task, concluded.ran, concluded.planned, answered, counts ? &model : nullptr);
  if (own != nullptr) {
    own->accuracy = right;
    return branch_ended(task.job, policy::Ending::kAnswered, 1, now);
  }
  count_answer(task, answered, counts ? &model : nullptr);
}

// Of a request that is no part of another.
void Run::count_answer(const policy::Task& task, Time answered, ModelResult* counted) {
  const bool in_time = answered <= deadline_of(task);
  deadlines_.erase(task.job);
  count(in_time);
  if (counted == nullptr) return;
  --unended_;
  ++(in_time ? counted->on_time : counted->late);
  counted->latency.record(answered - task.arrival);
}

double Run::judge(const policy::Task& task, plan::Subset ran, plan::Subset planned, Time finish,
                  ModelResult* counted) {
  const EnsembleExample& example = *queries_.at(task.job);
  queries_.erase(task.job);
  const double right = example.correct[ran] ? 1 : 0;
  const SimulatedEnsemble& ensemble = *source_of(task).ensemble;
  if (counted == nullptr || (finish > deadline_of(task) && !ensemble.serve_all)) return right;
  EnsembleResult& result = *counted->ensemble;
  ++result.answered;
  if (right > 0) ++result.correct;
  if (ran != planned) ++result.incomplete;
  ++result.subsets[ensemble.subset_name(ran)];
  return right;
}

double Run::judge(const Branch& node, Time now) {
  const Source& source = sources_[node.source];
  ModelResult* counted = node.measured ? node.result : nullptr;
  if (source.ensemble != nullptr) {
    return judge(node.task, node.answered, node.answered, now, counted);
  }
  const auto variant = static_cast<size_t>(std::countr_zero(node.answered));
  return judge(node.task, &source.variants->variants[variant].name, now, counted);
}

void Run::learn(Time now) {
  const policy::Task task = evidence_.begin()->second;
  evidence_.erase(evidence_.begin());
  const auto tell = [&](const policy::Estimate& estimate) {
    if (tree_.has(task.job)) return tree_.learned(task.job, estimate, now);
    scheduler_->learned(task, estimate, now, decisions_);
  };
  if (const auto query = queries_.find(task.job); query != queries_.end()) {
    return tell(query->second->difficulty);
  }
  const auto example = examples_.find(task.job);
  if (example != examples_.end()) tell(example->second->evidence);
}

double Run::judge(const policy::Task& task, const std::string* variant, Time finish,
                  ModelResult* counted) {
  const Branch* own = branch(task.job);
  const Source& source = own != nullptr ? sources_[own->source] : source_of(task);
  const SimulatedVariants& service = *source.variants;
  const Example* e = nullptr;
  if (const auto example = examples_.find(task.job); example != examples_.end()) {
    e = example->second;
    examples_.erase(example);
  }
  double right = e != nullptr && e->short_circuit_correct ? 1 : 0;
  for (size_t v = 0; v < service.variants.size(); ++v) {
    if (variant == nullptr || service.variants[v].name != *variant) continue;
    right = e == nullptr ? service.variants[v].accuracy : e->correct[v] ? 1 : 0;
  }
  if (counted == nullptr) return right;
  VariantsResult& result = *counted->variants;
  ++result.answered;
  variant == nullptr ? ++result.short_circuited : ++result.variants[*variant];
  result.correct += right;
  if (right == 0) return right;
  const double worth = 1 - service.penalty(deadline_of(task) - task.arrival, finish - task.arrival);
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
  const Time answered = replied(now, own);
  const double right = judge(task, nullptr, answered, counts ? &model : nullptr);
  if (own != nullptr) {
    own->accuracy = right;
    return branch_ended(task.job, policy::Ending::kAnswered, 1, now);
  }
  count_answer(task, answered, counts ? &model : nullptr);
}

}  // namespace fermata::simulate
