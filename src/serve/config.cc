#include "serve/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <vector>

#include "base/document.h"
#include "base/status.h"
#include "operators/operator.h"
#include "plan/ensemble/ensemble_problem.h"
#include "plan/variants/group_document.h"
#include "policy/scheduler.h"
#include "serve/reach.h"
#include "store/object_store.h"

namespace fermata::serve {
namespace {

constexpr int64_t kMaxPort = 65535;
constexpr int64_t kMaxWorkers = 1024;
constexpr double kShortestSloMs = 1e-3, kLongestSloMs = 1e9;  // the latter: eleven days
constexpr double kShortestEpochS = 0.1, kLongestEpochS = 86'400;

uint16_t port(Reader reader, uint16_t fallback) {
  return static_cast<uint16_t>(reader.integer(0, kMaxPort, fallback));
}

ListenOptions listen_options(Reader reader) {
  ListenOptions options;
  if (!reader.present()) return options;
  ObjectReader fields = reader.object();
  Reader host = fields["host"];
  options.host = host.string(options.host);
  options.is_public = fields["public"].boolean(false);
  if (!check_reach(options).ok()) {
    host.fail("a loopback address, or public: true beside it, as other machines can reach it");
  }
  if (Reader admin = fields["admin"]; admin.present()) options.admin = admin.boolean();
  if (Reader own = fields["admin_port"]; own.present()) options.admin_port = port(own, 0);
  options.http = port(fields["http"], options.http);
  options.grpc = port(fields["grpc"], options.grpc);
  options.metrics = port(fields["metrics"], options.metrics);
  options.threads = static_cast<uint32_t>(fields["threads"].integer(1, 64, options.threads));
  options.max_connections = static_cast<uint32_t>(
      fields["max_connections"].integer(1, 1'000'000, options.max_connections));
  options.max_request_mb =
      static_cast<uint32_t>(fields["max_request_mb"].integer(1, 2047, options.max_request_mb));
  Reader memory = fields["memory_mb"];
  options.memory_mb = static_cast<uint32_t>(
      memory.integer(1, 1 << 20, std::max(options.memory_mb, 8 * options.max_request_mb)));
  if (options.memory_mb < 8 * options.max_request_mb) {
    memory.fail("at least 8 times max_request_mb");
  }
  return options;
}

// Bytes.
uint64_t mebibytes(Reader reader, uint64_t fallback) {
  return static_cast<uint64_t>(reader.integer(1, 1 << 24, static_cast<int64_t>(fallback >> 20)))
         << 20;
}

SharedMemoryOptions shared_memory_options(Reader reader, SharedMemoryOptions options) {
  if (!reader.present()) return options;
  ObjectReader fields = reader.object();
  if (Reader prefix = fields["prefix"]; prefix.present()) {
    options.prefix = prefix.string();
    if (!options.prefix->starts_with('/')) prefix.fail("a name that starts with /");
  }
  options.regions = static_cast<uint32_t>(fields["regions"].integer(0, 4096, options.regions));
  options.bytes = mebibytes(fields["mb"], options.bytes);
  return options;
}

engine::WorkerType worker_type(ObjectReader& fields) {
  engine::WorkerType type;
  type.count = static_cast<uint32_t>(fields["count"].integer(1, kMaxWorkers, type.count));
  // Which providers there are, the library says when the server starts.
  type.provider = fields["provider"].string(type.provider);
  type.threads = static_cast<uint32_t>(fields["threads"].integer(1, 1024, type.threads));
  type.memory_mb = fields["memory_mb"].positive(type.memory_mb);
  return type;
}

std::vector<engine::WorkerType> worker_types(Reader reader) {
  std::vector<engine::WorkerType> types;
  std::set<std::string> named;
  for (Reader entry : reader.list(1)) {
    ObjectReader fields = entry.object();
    Reader name = fields["name"];
    types.push_back(worker_type(fields));
    types.back().name = name.string();
    if (!engine::is_worker_type_name(types.back().name)) {
      name.fail("letters, digits, '-' and '_': it stands in the name of a profile");
    }
    if (!named.insert(types.back().name).second) name.fail("a name that no other type has");
  }
  if (types.size() > policy::kMostWorkerTypes) {
    reader.fail(fmt::format("at most {} types", policy::kMostWorkerTypes));
  }
  return types;
}

engine::WorkerOptions worker_options(Reader reader) {
  engine::WorkerOptions options;
  if (!reader.present()) return options;
  ObjectReader fields = reader.object();
  // In the order of ExecutorKind.
  options.executor =
      static_cast<engine::ExecutorKind>(fields["executor"].choice({"onnxruntime", "emulated"}, 0));
  if (Reader types = fields["types"]; types.present()) {
    options.types = worker_types(types);  // and none of the fields beside it that each type has
  } else {
    options.types = {worker_type(fields)};
  }
  options.run_limit = Duration::from_seconds(
      fields["run_limit_s"].between(0.01, 86'400, options.run_limit.seconds()));
  Reader residency = fields["residency"];
  // In the order of Residency.
  options.residency = static_cast<engine::Residency>(residency.choice({"placed", "on_demand"}, 0));
  if (options.residency == engine::Residency::kOnDemand &&
      !std::isfinite(options.least_memory_mb())) {
    residency.fail("memory_mb beside it, without which every worker holds every model");
  }
  return options;
}

engine::PlacementOptions placement_options(Reader reader, const engine::WorkerOptions& workers) {
  engine::PlacementOptions options;
  if (!reader.present()) return options;
  if (!std::isfinite(workers.least_memory_mb())) {
    reader.fail("workers.memory_mb beside it, without which every worker holds every model");
    return options;
  }
  if (workers.residency == engine::Residency::kOnDemand) {
    reader.fail("workers.residency placed beside it");
    return options;
  }
  ObjectReader fields = reader.object();
  if (Reader subclusters = fields["subclusters"]; subclusters.present()) {
    options.subclusters = static_cast<uint32_t>(subclusters.integer(1, workers.count()));
  }
  options.epoch = Duration::from_seconds(
      fields["epoch_s"].between(kShortestEpochS, kLongestEpochS, options.epoch.seconds()));
  options.max_change_cost = fields["max_change_cost"].non_negative(options.max_change_cost);
  options.max_rate_rps = fields["max_rate_rps"].positive(options.max_rate_rps);
  options.weight = fields["weight"].non_negative(options.weight);
  options.min_gain = fields["min_gain"].non_negative(options.min_gain);
  return options;
}

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

engine::VariantsOptions variants_options(ObjectReader& fields) {
  engine::VariantsOptions options;
  std::set<std::string> named;
  for (Reader entry : fields["variants"].list(1)) {
    if (entry.is_object()) {  // a service
      ObjectReader own = entry.object();
      options.models.push_back(own["service"].string());
      options.services[options.models.back()] = own["accuracy"].between(0, 1);
    } else {
      options.models.push_back(entry.string());
    }
    if (!named.insert(options.models.back()).second) entry.fail("a model that is not listed yet");
  }
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
  for (const auto& [name, from] : reader.map()) named.emplace_back(name, from.string());
  return named;
}

// A service or a model of the repository, or an operator with its options.
void read_stage(Reader entry, ObjectReader& own, operators::Resolve resolve,
                engine::PipelineOptions::Stage& stage) {
  Reader service = own["service"], model = own["model"], op = own["operator"];
  if (int{service.present()} + int{model.present()} + int{op.present()} != 1) {
    entry.fail("one of service, model and operator");
  } else if (op.present()) {
    const auto& names = operators::operator_names();
    stage.op = operators::read_operator(names[op.choice(names)], own, resolve);
  } else {
    stage.service = service.present() ? service.string() : model.string();
    stage.fan_out = own["fan_out"].string("");
  }
}

engine::PipelineOptions pipeline_options(ObjectReader& fields, operators::Resolve resolve) {
  engine::PipelineOptions options;
  for (Reader entry : fields["stages"].list(1)) {
    ObjectReader own = entry.object();
    engine::PipelineOptions::Stage& stage = options.stages.emplace_back();
    stage.name = own["name"].string();
    read_stage(entry, own, resolve, stage);
    for (Reader before : own["after"].optional_list()) stage.after.push_back(before.string());
    stage.inputs = tensors(own["inputs"]);
  }
  options.outputs = tensors(fields["outputs"]);
  return options;
}

engine::ServiceOptions service_options(const std::string& name, Reader reader,
                                       operators::Resolve resolve) {
  engine::ServiceOptions options;
  options.name = name;
  ObjectReader fields = reader.object();
  // In the order of what a service may be.
  switch (fields["kind"].choice({"model", "variants", "ensemble", "pipeline"}, 0)) {
    case 1:
      options.variants = variants_options(fields);
      break;
    case 2:
      options.ensemble = ensemble_options(fields);
      break;
    case 3:
      options.pipeline = pipeline_options(fields, resolve);
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

engine::Limits limits(Reader reader) {
  engine::Limits limits;
  if (!reader.present()) return limits;
  ObjectReader fields = reader.object();
  limits.request_parts =
      static_cast<uint32_t>(fields["request_parts"].integer(1, 1 << 20, limits.request_parts));
  limits.held_bytes = mebibytes(fields["held_mb"], limits.held_bytes);
  return limits;
}

std::string policy(Reader reader, const std::string& fallback) {
  const std::vector<std::string_view> names = policy::all_scheduler_names();
  const auto at = std::find(names.begin(), names.end(), fallback);
  return std::string(names[reader.choice(names, static_cast<size_t>(at - names.begin()))]);
}

std::optional<bool> flag(Reader reader) {
  return reader.present() ? std::optional(reader.boolean()) : std::nullopt;
}

Config config(Reader root, operators::Resolve resolve) {
  Config config;
  engine::EngineOptions& engine = config.engine;
  ObjectReader fields = root.object();
  engine.repository = fields["models"].string();
  config.models_mirror = fields["models_mirror"].string("");
  config.listen = listen_options(fields["listen"]);
  config.listen.shared_memory =
      shared_memory_options(fields["shared_memory"], config.listen.shared_memory);
  engine.policy = policy(fields["scheduler"], engine.policy);
  engine.groups.window =
      Duration::from_millis(fields["scheduler_window_ms"].between(0, 1e6, 100.0));
  engine.groups.data_aware = flag(fields["scheduler_data_aware"]);
  engine.groups.short_circuit = flag(fields["scheduler_short_circuit"]);
  engine.groups.tau =
      static_cast<uint32_t>(fields["scheduler_tau"].integer(0, 1'000'000, engine.groups.tau));
  engine.groups.max_group = static_cast<uint32_t>(
      fields["scheduler_max_group"].integer(1, int64_t{UINT32_MAX}, engine.groups.max_group));
  engine.groups.delta = fields["scheduler_delta"].between(1e-9, 1, engine.groups.delta);
  engine.scheduler_threads = static_cast<uint32_t>(fields["scheduler_threads"].integer(0, 256, 0));
  engine.workers = worker_options(fields["workers"]);
  engine.placement = placement_options(fields["placement"], engine.workers);
  engine.latency_quantile = fields["latency_quantile"].between(0.5, 0.99, engine.latency_quantile);
  engine.operator_threads =
      static_cast<uint32_t>(fields["operator_threads"].integer(1, 1024, engine.operator_threads));
  engine.default_max_batch = static_cast<uint32_t>(
      fields["default_max_batch"].integer(1, 65536, engine.default_max_batch));
  engine.limits = limits(fields["limits"]);
  if (Reader services = fields["services"]; services.present()) {
    for (const auto& [name, service] : services.map()) {
      engine.services.push_back(service_options(name, service, resolve));
    }
  }
  const std::vector<std::string_view> levels = {"debug", "info", "warning", "error", "off"};
  config.log_level = levels[fields["log_level"].choice(levels, 1)];
  return config;
}

absl::StatusOr<Config> read_config(Document document, const std::string& folder) {
  const std::filesystem::path base(folder);
  const auto resolved = [&base](const std::string& file) {
    return (base / std::filesystem::path(file)).lexically_normal().string();
  };
  const auto from_here = [&resolved](std::string& file) { file = resolved(file); };
  ASSIGN_OR_RETURN(Config result,
                   document.read([&](Reader root) { return config(root, resolved); }));
  if (!store::is_s3_url(result.engine.repository)) from_here(result.engine.repository);
  if (!result.models_mirror.empty()) from_here(result.models_mirror);
  for (engine::ServiceOptions& service : result.engine.services) {
    if (service.ensemble) {
      from_here(service.ensemble->profile);
      if (!service.ensemble->features.empty()) from_here(service.ensemble->features);
    }
    if (!service.variants) continue;
    if (auto& evidence = service.variants->evidence) {
      from_here(evidence->features);
      from_here(evidence->labels);
    }
    if (auto& labelled = service.variants->labelled) {
      from_here(labelled->features);
      from_here(labelled->labels);
    }
  }
  return result;
}

}  // namespace

absl::StatusOr<Config> parse_config(std::string_view text, const std::string& folder) {
  ASSIGN_OR_RETURN(Document document, Document::parse(text, Document::Format::kYaml));
  return read_config(std::move(document), folder);
}

absl::StatusOr<Config> load_config(const std::string& file) {
  ASSIGN_OR_RETURN(Document document, Document::load(file));
  return read_config(std::move(document), std::filesystem::path(file).parent_path().string());
}

}  // namespace fermata::serve
