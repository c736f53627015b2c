#include "serve/config/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <vector>

#include "base/document.h"
#include "base/status.h"
#include "cluster/scheduler/hosts.h"
#include "engine/confine/machine.h"
#include "engine/confine/model_environment.h"
#include "engine/confine/nursery.h"
#include "policy/rules_document.h"
#include "policy/scheduler.h"
#include "serve/config/cluster_options.h"
#include "serve/config/divisions.h"
#include "serve/config/reach.h"
#include "serve/config/service_options.h"
#include "store/object_store.h"

namespace fermata::serve {
namespace {

constexpr uint64_t kPartOfBatch = 16;  // of listen.memory_mb, that a batch copies at a time
constexpr int64_t kMaxPort = 65535;
constexpr int64_t kMaxWorkers = 1024;
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
    host.fail("a loopback address, or public: true, to let other machines connect");
  }
  if (Reader admin = fields["admin"]; admin.present()) options.admin = admin.boolean();
  if (Reader own = fields["admin_port"]; own.present()) options.admin_port = port(own, 0);
  for (Reader origin : fields["origins"].optional_list())
    options.origins.push_back(origin.string());
  Reader http = fields["http"], grpc = fields["grpc"], metrics = fields["metrics"];
  options.http = port(http, options.http);
  options.grpc = port(grpc, options.grpc);
  options.metrics = port(metrics, options.metrics);
  if (const absl::Status same = check_ports(options); !same.ok()) {
    const Reader said = metrics.present() ? metrics : grpc.present() ? grpc : http;
    said.fail(fmt::format("ports of which no two are the same ({})", message(same)));
  }
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
  Reader arriving = fields["arriving_mb"];
  options.arriving_mb = static_cast<uint32_t>(arriving.integer(1, options.memory_mb, 0));
  if (arriving.present() && options.arriving_mb <= options.max_request_mb) {
    arriving.fail("more than max_request_mb, or a message could be larger");
  }
  options.streams_mb = static_cast<uint32_t>(fields["streams_mb"].integer(1, options.memory_mb, 0));
  options.max_calls =
      static_cast<uint32_t>(fields["max_calls"].integer(1, 1'000'000, options.max_calls));
  return options;
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

engine::WorkerType worker_type(ObjectReader& fields, bool may_be_auto) {
  engine::WorkerType type;
  if (const Reader count = fields["count"]; may_be_auto && count.is_string()) {
    type.count = static_cast<uint32_t>(fields["max"].integer(1, kMaxWorkers));
  } else {
    type.count = static_cast<uint32_t>(count.integer(1, kMaxWorkers, type.count));
  }
  // Which providers there are, the library says when the server starts.
  type.provider = fields["provider"].string(type.provider);
  type.threads = static_cast<uint32_t>(fields["threads"].integer(1, 1024, type.threads));
  type.memory_mb = fields["memory_mb"].positive(type.memory_mb);
  type.remote = fields["remote"].boolean(false);
  return type;
}

std::vector<engine::WorkerType> worker_types(Reader reader) {
  std::vector<engine::WorkerType> types;
  std::set<std::string> named;
  for (Reader entry : reader.list(1)) {
    ObjectReader fields = entry.object();
    Reader name = fields["name"];
    types.push_back(worker_type(fields, false));
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

// Of `count: auto`.
void read_least(ObjectReader& fields, engine::WorkerOptions& options) {
  const Reader count = fields["count"];
  if (!count.is_string()) return;
  count.choice({"auto"});
  options.least = static_cast<uint32_t>(fields["min"].integer(1, options.types.front().count, 1));
  if (std::isfinite(options.least_memory_mb())) {
    count.fail("a number: memory_mb excludes auto");
  }
}

// `environment`: names of variables that models see.
engine::WorkerOptions worker_options(Reader reader, std::vector<std::string>& environment) {
  engine::WorkerOptions options;
  if (!reader.present()) return options;
  ObjectReader fields = reader.object();
  // In the order of ExecutorKind.
  options.executor = static_cast<engine::ExecutorKind>(
      fields["executor"].choice({"onnxruntime", "emulated", "paced"}, 0));
  if (Reader types = fields["types"]; types.present()) {
    options.types = worker_types(types);  // and none of the fields beside it that each type has
  } else {
    options.types = {worker_type(fields, true)};
    read_least(fields, options);
  }
  options.run_limit = Duration::from_seconds(
      fields["run_limit_s"].between(0.01, 86'400, options.run_limit.seconds()));
  // Each process would take memory of the device for itself.
  const bool devices =
      std::any_of(options.types.begin(), options.types.end(),
                  [](const auto& type) { return !type.remote && type.provider != "cpu"; });
  if (devices) options.isolation = engine::Isolation::kThread;
  // In the order of Isolation.
  options.isolation = static_cast<engine::Isolation>(
      fields["isolation"].choice({"thread", "process"}, static_cast<size_t>(options.isolation)));
  if (Reader standby = fields["standby"]; standby.present()) {
    options.standby = standby.integer(0, 1) == 1;
  }
  if (Reader workers = fields["per_process"]; workers.present()) {
    options.per_process = static_cast<uint32_t>(workers.integer(1, 4096));
  }
  if (Reader memory = fields["process_memory_mb"]; memory.present()) {
    options.process_memory_mb = memory.between(64, 1 << 24);
  }
  if (Reader processor = fields["process_processor_s"]; processor.present()) {
    options.process_processor = Duration::from_seconds(processor.between(0.1, 86'400));
  }
  if (Reader python = fields["python"]; python.present()) options.python = python.string();
  for (const Reader& name : fields["environment"].optional_list()) {
    environment.push_back(name.string());
    if (!engine::is_variable_name(environment.back())) {
      name.fail("a variable's name: letters, digits and '_', and no digit first");
    }
  }
  if (Reader openvino = fields["openvino"]; openvino.present()) {
    for (engine::WorkerType& type : options.types) type.openvino = openvino.string();
  }
  if (Reader memory = fields["trial_memory_mb"]; memory.present()) {
    options.trial_memory_mb = memory.between(64, 1 << 24);
  }
  Reader residency = fields["residency"];
  // In the order of Residency.
  options.residency = static_cast<engine::Residency>(residency.choice({"placed", "on_demand"}, 0));
  if (options.residency == engine::Residency::kOnDemand &&
      !std::isfinite(options.least_memory_mb())) {
    residency.fail("memory_mb too: without it every worker holds every model");
  }
  return options;
}

engine::PlacementOptions placement_options(Reader reader, const engine::WorkerOptions& workers) {
  engine::PlacementOptions options;
  if (!reader.present()) return options;
  if (!std::isfinite(workers.least_memory_mb())) {
    reader.fail("workers.memory_mb too: without it every worker holds every model");
    return options;
  }
  if (workers.residency == engine::Residency::kOnDemand) {
    reader.fail("workers.residency: placed with it");
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

engine::Limits limits(Reader reader) {
  engine::Limits limits;
  if (!reader.present()) return limits;
  ObjectReader fields = reader.object();
  limits.request_parts =
      static_cast<uint32_t>(fields["request_parts"].integer(1, 1 << 20, limits.request_parts));
  limits.held_bytes = mebibytes(fields["held_mb"], limits.held_bytes);
  return limits;
}

constexpr double kLongestRecordS = 3600;

// A map, or `off`.
tune::RecorderOptions recorder_options(Reader reader) {
  tune::RecorderOptions options;
  if (!reader.present()) return options;
  if (!reader.is_object()) {
    reader.choice({"off"});
    options.on = false;
    return options;
  }
  ObjectReader fields = reader.object();
  options.keep =
      Duration::from_seconds(fields["seconds"].between(1, kLongestRecordS, options.keep.seconds()));
  options.memory_mb =
      fields["memory_mb"].between(tune::kLeastRecorderMb, tune::kMostRecorderMb, options.memory_mb);
  return options;
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
  config.listen.ready_any = fields["ready"].choice({"all", "any"}, 0) == 1;
  config.exit_on_error = fields["exit_on_error"].boolean(false);
  config.drain_delay = Duration::from_seconds(fields["drain_delay_s"].between(0, 3600, 0));
  config.listen.shared_memory =
      shared_memory_options(fields["shared_memory"], config.listen.shared_memory);
  config.recorder = recorder_options(fields["recorder"]);
  engine.policy = policy(fields["scheduler"], engine.policy);
  engine.groups.rules = policy::read_rules(fields["scheduler_rules"], engine.policy);
  config.tune = fields["scheduler_tuning"].choice({"on", "off"}, 0) == 0;
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
  engine.workers = worker_options(fields["workers"], config.model_environment);
  engine.workers.batch_bytes = uint64_t{config.listen.memory_mb} * (1 << 20) / kPartOfBatch;
  config.cluster = cluster_options(fields["cluster"], engine.workers);
  engine.placement = placement_options(fields["placement"], engine.workers);
  engine.latency_quantile = fields["latency_quantile"].between(0.5, 0.99, engine.latency_quantile);
  engine.operator_threads = static_cast<uint32_t>(fields["operator_threads"].integer(
      1, 1024, std::max(engine.operator_threads, engine::own_cores())));
  engine.default_max_batch = static_cast<uint32_t>(
      fields["default_max_batch"].integer(1, 65536, engine.default_max_batch));
  engine.limits = limits(fields["limits"]);
  if (Reader services = fields["services"]; services.present()) {
    std::vector<engine::ServiceOptions> inner;
    const auto named = services.map();
    for (const auto& [name, service] : named) {
      engine.services.push_back(service_options(name, service, resolve, inner));
    }
    check_names(named, engine.services);
    for (engine::ServiceOptions& each : inner) engine.services.push_back(std::move(each));
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
  auto read = document.read([&](Reader root) { return config(root, resolved); });
  if (!read.ok()) return invalid("{}", fmt::join(document.errors(), "\n"));
  Config result = *std::move(read);
  if (!store::is_s3_url(result.engine.repository)) from_here(result.engine.repository);
  if (!result.models_mirror.empty()) from_here(result.models_mirror);
  cluster::TlsFiles& tls = result.cluster.tls;
  for (std::string* file : {&tls.certificate, &tls.key, &tls.authority}) {
    if (!file->empty()) from_here(*file);
  }
  if (!result.cluster.lock.empty()) from_here(result.cluster.lock);
  if (result.cluster.lease.on()) from_here(result.cluster.lease.account);
  if (result.cluster.on()) {
    result.engine.workers.remote = result.hosts = std::make_shared<cluster::Hosts>(result.cluster);
  }
  RETURN_IF_ERROR(check_divisions(result.cluster, result.engine.services));
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

std::shared_ptr<engine::Nursery> make_nursery(const Config& config) {
  return std::make_shared<engine::Nursery>(
      config.engine.probe_program,
      engine::Nursery::Options{.environment = config.model_environment});
}

absl::StatusOr<Config> parse_config(std::string_view text, const std::string& folder) {
  ASSIGN_OR_RETURN(Document document, Document::parse(text, Document::Format::kYaml));
  return read_config(std::move(document), folder);
}

absl::StatusOr<Config> load_config(const std::string& file) {
  ASSIGN_OR_RETURN(Document document, Document::load(file));
  return read_config(std::move(document), std::filesystem::path(file).parent_path().string());
}

}  // namespace fermata::serve
