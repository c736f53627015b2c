#include "serve/config/service_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "absl/algorithm/container.h"
#include "base/status.h"
#include "engine/services/pipeline.h"
#include "plan/ensemble/ensemble_problem.h"
#include "plan/pipeline/pipeline_document.h"
#include "plan/variants/group_document.h"

namespace fermata::serve {
namespace {

constexpr double kShortestSloMs = 1e-3, kLongestSloMs = 1e9;  // the latter: eleven days

engine::EvidenceSource evidence_source(Reader reader) {
  engine::EvidenceSource source;
  ObjectReader fields = reader.object();
  source.features = fields["features"].string();
  source.labels = fields["labels"].string();
  source.input = fields["input"].string("");
  source.extractor = fields["extractor"].string("");
  source.output = fields["output"].string("");
  source.k = static_cast<uint32_t>(fields["k"].integer(1, 10'000, source.k));
  source.scores = fields["kind"].choice({"neighbors", "scores"}, 0) == 1;
  return source;
}

// A word, how many requests the frequencies of the classes weigh as, or the weight of each class.
void read_prior(Reader reader, engine::VariantsOptions& options) {
  if (reader.is_list()) {
    for (Reader weight : reader.list(1)) options.prior.push_back(weight.between(1e-9, 1e12));
  } else if (reader.is_object()) {
    ObjectReader fields = reader.object();
    options.prior_requests = fields["strong"].between(1e-9, 1e12);
  } else if (reader.choice({"uninformative", "weak"}, 0) == 1) {
    options.prior_requests = 1;
  }
}

// Models, with their accuracy where it is stated, and services.
engine::VariantsOptions variant_members(Reader variants) {
  engine::VariantsOptions options;
  std::set<std::string> named;
  for (Reader entry : variants.list(1)) {
    if (entry.is_object()) {
      ObjectReader own = entry.object();
      const Reader model = own["model"];
      const std::string name = model.present() ? model.string() : own["service"].string();
      (model.present() ? options.accuracy : options.services)[name] = own["accuracy"].between(0, 1);
      options.models.push_back(name);
    } else {
      options.models.push_back(entry.string());
    }
    if (!named.insert(options.models.back()).second) entry.fail("a model that is not listed yet");
  }
  return options;
}

engine::VariantsOptions variants_options(ObjectReader& fields) {
  engine::VariantsOptions options = variant_members(fields["variants"]);
  options.penalty = plan::read_penalty(fields["penalty"]);
  read_prior(fields["prior"], options);
  options.data_aware = fields["data_aware"].boolean(true);
  options.short_circuit = fields["short_circuit"].boolean(true);
  if (Reader evidence = fields["evidence"]; evidence.present()) {
    options.evidence = evidence_source(evidence);
  }
  if (Reader labelled = fields["labelled"]; labelled.present()) {
    ObjectReader files = labelled.object();
    options.labelled = {files["features"].string(), files["labels"].string()};
  }
  return options;
}

engine::EnsembleOptions ensemble_options(ObjectReader& fields) {
  static const std::vector<std::string_view> kAggregations(std::begin(estimate::kAggregationNames),
                                                           std::end(estimate::kAggregationNames));
  engine::EnsembleOptions options;
  const auto is_named = [&options](const std::string& model) {
    return std::find(options.models.begin(), options.models.end(), model) != options.models.end();
  };
  Reader models = fields["models"];
  for (Reader entry : models.list(1)) {
    std::string model;
    if (entry.is_object()) {
      model = entry.object()["service"].string();
      options.services.insert(model);
    } else {
      model = entry.string();
    }
    if (is_named(model)) entry.fail("a model that is not listed yet");
    options.models.push_back(model);
  }
  if (options.models.size() > plan::EnsembleProblem::kMostModels) {
    models.fail(fmt::format("at most {} models", plan::EnsembleProblem::kMostModels));
  }
  options.aggregation = static_cast<estimate::Aggregation>(
      fields["aggregation"].choice(kAggregations, static_cast<size_t>(options.aggregation)));
  Reader weights = fields["weights"], meta = fields["meta"];
  if (estimate::takes_weights(options.aggregation) || weights.present()) {
    for (Reader weight : weights.list(1)) options.weights.push_back(weight.between(1e-9, 1e9));
    if (options.weights.size() != options.models.size()) weights.fail("a weight for each model");
  }
  if (options.aggregation == estimate::Aggregation::kStacking || meta.present()) {
    options.meta = meta.string();
    options.meta_output = fields["meta_output"].string("");
  }
  options.output = fields["output"].string("");
  options.profile = fields["profile"].string();
  Reader predictor = fields["predictor"];
  options.predictor = predictor.string("");
  options.predictor_output = fields["predictor_output"].string(options.predictor_output);
  // In the order of DifficultyScore, but for none.
  options.score = static_cast<engine::DifficultyScore>(
      1 + fields["difficulty"].choice({"discrepancy", "agreement"}, 0));
  if (!predictor.present()) options.score = engine::DifficultyScore::kNone;
  if (Reader selector = fields["selector"]; selector.present()) {
    ObjectReader own = selector.object();
    // In the order of Selector, but for none.
    options.selector =
        static_cast<engine::Selector>(1 + own["kind"].choice({"dynamic-selection", "gating"}));
    if (options.selector == engine::Selector::kGating) {
      options.gating = own["model"].string();
      options.gating_threshold = own["threshold"].between(0, 1, 0.0);
    } else {
      options.features = own["features"].string();
    }
  }
  options.neighbours =
      static_cast<uint32_t>(fields["neighbours"].integer(1, 10'000, options.neighbours));
  options.serve_all = fields["mode"].choice({"reject", "serve-all"}, 0) == 1;
  for (Reader entry : fields["static"].optional_list()) {
    options.fixed.push_back(entry.string());
    if (!is_named(options.fixed.back())) entry.fail("one of the service's models");
  }
  return options;
}

engine::PipelineOptions::Tensors tensors(Reader reader) {
  engine::PipelineOptions::Tensors named;
  if (!reader.present()) return named;
  for (const auto& [name, from] : reader.map()) {
    if (from.is_list()) {  // of outputs: the first whose stage has run
      for (const Reader each : from.list(1)) named.emplace_back(name, each.string());
    } else {
      named.emplace_back(name, from.string());
    }
  }
  return named;
}

void read_element(Reader reader, engine::Condition& condition) {
  using Element = engine::Condition::Element;
  if (reader.is_number()) {
    condition.element = Element::kIndex;
    condition.index = static_cast<uint32_t>(reader.integer(0, 1'000'000'000));
  } else if (reader.present()) {  // in their order
    condition.element = static_cast<Element>(1 + reader.choice({"max", "min", "argmax", "any"}));
  }
}

std::optional<engine::Condition> condition(Reader reader) {
  if (!reader.present()) return std::nullopt;
  engine::Condition condition;
  ObjectReader fields = reader.object();
  condition.from = fields["output"].string();
  read_element(fields["element"], condition);
  const Reader above = fields["above"], below = fields["below"], among = fields["among"];
  if (int{above.present()} + int{below.present()} + int{among.present()} != 1) {
    reader.fail("one of above, below and among");
  } else if (among.present()) {
    condition.kind = engine::Condition::Kind::kAmong;
    for (const Reader value : among.list(1)) condition.values.push_back(value.number());
  } else {
    condition.kind =
        above.present() ? engine::Condition::Kind::kAbove : engine::Condition::Kind::kBelow;
    condition.values = {(above.present() ? above : below).number()};
  }
  return condition;
}

// A service or a model of the repository, several models any of which may answer, which become a
// service of the stage's own among `inner`, or an operator with its options.
void read_stage(Reader entry, ObjectReader& own, const std::string& pipeline,
                operators::Resolve resolve, engine::PipelineOptions::Stage& stage,
                std::vector<engine::ServiceOptions>& inner) {
  Reader service = own["service"], model = own["model"], op = own["operator"];
  Reader variants = own["variants"];
  if (int{service.present()} + int{model.present()} + int{op.present()} + int{variants.present()} !=
      1) {
    entry.fail("one of service, model, variants and operator");
  } else if (op.present()) {
    const auto& names = operators::operator_names();
    stage.op = operators::read_operator(names[op.choice(names)], own, resolve);
    return;
  } else if (variants.present()) {
    stage.service = engine::stage_route(pipeline, stage.name);
    inner.push_back({.name = stage.service, .variants = variant_members(variants)});
  } else {
    stage.service = service.present() ? service.string() : model.string();
  }
  stage.fan_out = own["fan_out"].string("");
}

engine::AdapterOptions adapter_options(Reader reader, operators::Resolve resolve) {
  engine::AdapterOptions options;
  ObjectReader fields = reader.object();
  options.interval = Duration::seconds(fields["interval_s"].integer(1, 86'400, 10));
  options.dedicated = fields["replicas"].choice({"shared", "dedicated"}, 0) == 1;
  // Dedicated replicas have no others' time to fall back on in a burst: there what loses least.
  const auto usual =
      options.dedicated ? engine::Forecast::kMovingMaximum : engine::Forecast::kSquareRoot;
  options.forecast = static_cast<engine::Forecast>(  // in their order
      fields["forecast"].choice({"reactive", "moving-maximum", "square-root", "model"},
                                static_cast<size_t>(usual)));
  options.quantile = fields["quantile"].between(0.01, 0.99, options.quantile);
  const Reader model = fields["model"];
  if (options.forecast == engine::Forecast::kModel) {
    options.model = resolve(model.string());
  } else if (model.present()) {
    model.fail("no such field but for forecast: model");
  }
  if (const Reader sla = fields["sla_ms"]; sla.present()) {
    options.sla = Duration::from_millis(sla.between(kShortestSloMs, kLongestSloMs));
  }
  options.margin = fields["margin"].between(0.01, 100, options.margin);
  plan::PipelineProblem& limits = options.limits;
  plan::read_pipeline_adapter_limits(fields, limits);
  limits.accuracy =
      static_cast<plan::PipelineAccuracy>(fields["accuracy"].choice({"pas", "pas-prime"}, 0));
  limits.max_replicas =
      std::min(fields["max_replicas"].positive(limits.max_replicas), limits.max_replicas);
  limits.max_cost = fields["max_cost"].positive(limits.max_cost);
  if (options.dedicated && limits.max_replicas < 1) {
    fields["max_replicas"].fail("at least 1 where replicas are dedicated");
  }
  if (const Reader least = fields["threshold_rps"]; least.present()) {
    options.threshold_rps = least.positive();
    if (!options.dedicated) least.fail("no such field but for replicas: dedicated");
  }
  if (const Reader threads = fields["threads"]; threads.present() && !options.dedicated) {
    threads.fail("no such field but for replicas: dedicated");
  } else if (threads.present()) {
    for (const auto& [name, count] : threads.map()) {
      options.threads[name] = static_cast<uint32_t>(count.integer(1, 1024));
    }
  }
  return options;
}

engine::PipelineOptions pipeline_options(const std::string& name, ObjectReader& fields,
                                         operators::Resolve resolve,
                                         std::vector<engine::ServiceOptions>& inner) {
  engine::PipelineOptions options;
  for (Reader entry : fields["stages"].list(1)) {
    ObjectReader own = entry.object();
    engine::PipelineOptions::Stage& stage = options.stages.emplace_back();
    stage.name = own["name"].name();
    read_stage(entry, own, name, resolve, stage, inner);
    for (Reader before : own["after"].optional_list()) stage.after.push_back(before.string());
    stage.inputs = tensors(own["inputs"]);
    stage.when = condition(own["when"]);
  }
  options.outputs = tensors(fields["outputs"]);
  if (Reader adapter = fields["adapter"]; adapter.present()) {
    options.adapter = adapter_options(adapter, resolve);
  }
  return options;
}

engine::StreamOptions stream_options(ObjectReader& fields) {
  engine::StreamOptions options;
  const Reader variants = fields["variants"];
  for (const Reader entry : variants.list(1)) {
    ObjectReader own = entry.object();
    const Reader size = own["input_size"];
    options.variants.push_back({own["service"].string(),
                                static_cast<uint32_t>(size.integer(1, 1'000'000)),
                                own["accuracy"].between(0, 1), own["request_kb"].positive(0.0)});
    const auto& all = options.variants;
    if (all.size() > 1 && all.back().input_size <= all[all.size() - 2].input_size) {
      size.fail("a larger size than that of the variant before");
    }
  }
  if (options.variants.size() > plan::StreamProblem::kMostVariants) {
    variants.fail(fmt::format("at most {} variants", plan::StreamProblem::kMostVariants));
  }
  policy::StreamSettings& s = options.settings;
  s.period = Duration::from_millis(fields["period_ms"].between(50, 60'000, s.period.millis()));
  s.slack = Duration::from_millis(fields["slack_ms"].between(0, 10'000, s.slack.millis()));
  s.min_accuracy =
      fields["min_accuracy"].between(0, policy::highest_accuracy(options.variants), 0.0);
  s.phases = fields["phases"].boolean(false);
  s.phased_wait = fields["phased_wait"].between(0, 1, s.phased_wait);
  s.most_clients = static_cast<uint32_t>(
      fields["max_clients"].integer(1, plan::StreamProblem::kMostClients, s.most_clients));
  const int64_t all = s.most_clients;
  s.most_of_connection =
      static_cast<uint32_t>(fields["max_clients_per_connection"].integer(1, all, (all + 3) / 4));
  s.most_of_address =
      static_cast<uint32_t>(fields["max_clients_per_address"].integer(1, all, (all + 1) / 2));
  s.most_rate_rps = fields["max_rate_rps"].between(0.1, 10'000, s.most_rate_rps);
  s.new_clients_rps = fields["new_clients_rps"].between(0, 1e6, s.new_clients_rps);
  s.solver =
      static_cast<plan::StreamSolver>(fields["solver"].choice({"best", "exact", "annealing"}, 0));
  return options;
}

}  // namespace

engine::ServiceOptions service_options(const std::string& name, Reader reader,
                                       operators::Resolve resolve,
                                       std::vector<engine::ServiceOptions>& inner) {
  engine::ServiceOptions options;
  options.name = name;
  if (!is_name(name)) reader.fail(fmt::format("{} before it", kName));
  ObjectReader fields = reader.object();
  // In the order of what a service may be.
  switch (fields["kind"].choice({"model", "variants", "ensemble", "pipeline", "stream"}, 0)) {
    case 1:
      options.variants = variants_options(fields);
      break;
    case 2:
      options.ensemble = ensemble_options(fields);
      break;
    case 3:
      options.pipeline = pipeline_options(name, fields, resolve, inner);
      break;
    case 4:
      options.stream = stream_options(fields);
      break;
    default:
      options.model = fields["model"].string(name);
  }
  if (Reader slo = fields["slo_ms"]; slo.present()) {
    options.slo = Duration::from_millis(slo.between(kShortestSloMs, kLongestSloMs));
  }
  options.queue_limit =
      static_cast<uint32_t>(fields["queue_limit"].integer(1, 10'000'000, options.queue_limit));
  if (Reader held = fields["held_mb"]; held.present()) options.held_bytes = mebibytes(held, 0);
  if (Reader max_batch = fields["max_batch"]; max_batch.present()) {
    options.max_batch = static_cast<uint32_t>(max_batch.integer(1, 65536));
  }
  return options;
}

void check_names(const std::vector<std::pair<std::string, Reader>>& services,
                 const std::vector<engine::ServiceOptions>& options) {
  for (const engine::ServiceOptions& owner : options) {
    const std::vector<std::string> members = engine::members_of(owner);
    for (size_t m = 0; m < members.size(); ++m) {
      const std::string& member = owner.pipeline ? owner.pipeline->stages[m].name : members[m];
      const std::string route = engine::stage_route(owner.name, member);
      for (const auto& [name, reader] : services) {
        if (name != route && !name.starts_with(route + "/")) continue;
        reader.fail(fmt::format("another name: '{}' counts the requests of '{}' to its '{}'", route,
                                owner.name, member));
      }
    }
  }
}

}  // namespace fermata::serve
