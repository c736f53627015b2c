#include "serve/config.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <vector>

#include "base/document.h"
#include "base/status.h"
#include "policy/scheduler.h"

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
  options.host = fields["host"].string(options.host);
  options.http = port(fields["http"], options.http);
  options.grpc = port(fields["grpc"], options.grpc);
  options.metrics = port(fields["metrics"], options.metrics);
  options.threads = static_cast<uint32_t>(fields["threads"].integer(1, 64, options.threads));
  options.max_request_mb =
      static_cast<uint32_t>(fields["max_request_mb"].integer(1, 4096, options.max_request_mb));
  return options;
}

engine::WorkerOptions worker_options(Reader reader) {
  engine::WorkerOptions options;
  if (!reader.present()) return options;
  ObjectReader fields = reader.object();
  options.count = static_cast<uint32_t>(fields["count"].integer(1, kMaxWorkers, options.count));
  // In the order of ExecutorKind.
  options.executor =
      static_cast<engine::ExecutorKind>(fields["executor"].choice({"onnxruntime", "emulated"}, 0));
  // Which providers there are, the library says when the server starts.
  options.provider = fields["provider"].string(options.provider);
  options.threads = static_cast<uint32_t>(fields["threads"].integer(1, 1024, options.threads));
  options.memory_mb = fields["memory_mb"].positive(options.memory_mb);
  return options;
}

engine::PlacementOptions placement_options(Reader reader, const engine::WorkerOptions& workers) {
  engine::PlacementOptions options;
  if (!reader.present()) return options;
  if (!std::isfinite(workers.memory_mb)) {
    reader.fail("workers.memory_mb beside it, without which every worker holds every model");
    return options;
  }
  ObjectReader fields = reader.object();
  if (Reader subclusters = fields["subclusters"]; subclusters.present()) {
    options.subclusters = static_cast<uint32_t>(subclusters.integer(1, workers.count));
  }
  options.epoch = Duration::from_seconds(
      fields["epoch_s"].between(kShortestEpochS, kLongestEpochS, options.epoch.seconds()));
  options.max_change_cost = fields["max_change_cost"].non_negative(options.max_change_cost);
  options.max_rate_rps = fields["max_rate_rps"].positive(options.max_rate_rps);
  options.weight = fields["weight"].non_negative(options.weight);
  options.min_gain = fields["min_gain"].non_negative(options.min_gain);
  return options;
}

engine::ServiceOptions service_options(const std::string& name, Reader reader) {
  engine::ServiceOptions options;
  options.name = name;
  ObjectReader fields = reader.object();
  options.model = fields["model"].string(name);
  if (Reader slo = fields["slo_ms"]; slo.present()) {
    options.slo = Duration::from_millis(slo.between(kShortestSloMs, kLongestSloMs));
  }
  options.queue_limit =
      static_cast<uint32_t>(fields["queue_limit"].integer(1, 10'000'000, options.queue_limit));
  if (Reader max_batch = fields["max_batch"]; max_batch.present()) {
    options.max_batch = static_cast<uint32_t>(max_batch.integer(1, 65536));
  }
  return options;
}

std::string policy(Reader reader, const std::string& fallback) {
  const std::vector<std::string_view> names = policy::all_scheduler_names();
  const auto at = std::find(names.begin(), names.end(), fallback);
  return std::string(names[reader.choice(names, static_cast<size_t>(at - names.begin()))]);
}

Config config(Reader root) {
  Config config;
  engine::EngineOptions& engine = config.engine;
  ObjectReader fields = root.object();
  engine.repository = fields["models"].string();
  config.listen = listen_options(fields["listen"]);
  engine.policy = policy(fields["scheduler"], engine.policy);
  engine.scheduler_threads = static_cast<uint32_t>(fields["scheduler_threads"].integer(0, 256, 0));
  engine.workers = worker_options(fields["workers"]);
  engine.placement = placement_options(fields["placement"], engine.workers);
  engine.latency_quantile = fields["latency_quantile"].between(0.5, 0.99, engine.latency_quantile);
  engine.default_max_batch = static_cast<uint32_t>(
      fields["default_max_batch"].integer(1, 65536, engine.default_max_batch));
  if (Reader services = fields["services"]; services.present()) {
    for (const auto& [name, service] : services.map()) {
      engine.services.push_back(service_options(name, service));
    }
  }
  const std::vector<std::string_view> levels = {"debug", "info", "warning", "error", "off"};
  config.log_level = levels[fields["log_level"].choice(levels, 1)];
  return config;
}

absl::StatusOr<Config> read_config(Document document, const std::string& folder) {
  ASSIGN_OR_RETURN(Config result, document.read(config));
  const std::filesystem::path repository = result.engine.repository;
  result.engine.repository = (folder / repository).lexically_normal().string();
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
