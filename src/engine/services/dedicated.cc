#include "engine/services/dedicated.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/algorithm/container.h"
#include "base/status.h"
#include "engine/services/pipeline.h"
#include "model/profile.h"
#include "model/repository.h"
#include "policy/scheduler.h"

namespace fermata::engine {
namespace {

// By threads; what the user says has no choice.
absl::StatusOr<plan::LatencyByCores> latencies_of(const EngineOptions& options,
                                                  const std::string& model,
                                                  const AdapterOptions& adapter) {
  const WorkerType& worker = options.workers.types.front();
  const uint32_t most = options.workers.count() * worker.threads;
  const auto said = adapter.threads.find(model);
  plan::LatencyByCores latencies;
  const auto folder = read_model_folder(options.repository, model);
  if (!folder.ok()) return latencies;  // whoever loads it says so
  for (const auto& [threads, file] : folder->profiles_by_threads()) {
    if (threads > most || (said != adapter.threads.end() && threads != said->second)) continue;
    ASSIGN_OR_RETURN(const Profile profile, read_profile(file));
    if (profile.provider != worker.provider) continue;
    latencies[threads] = latency_at(profile, options.latency_quantile);
  }
  return latencies;
}

// How many threads a dedicated replica has (IPA, equation 1).
// Adds to `adapter` what that says of the models of a stage, from the profiles beside them that
// were written for several numbers of threads, up to what all workers have. Nothing where there are
// none.
absl::Status allocate_cores(const EngineOptions& options, const std::string& service,
                            const std::string& stage, const std::vector<std::string>& models,
                            AdapterOptions& adapter) {
  AdapterOptions::Cores cores{.stage = stage};
  cores.problem.threshold_rps = adapter.threshold_rps;
  cores.problem.batch_sizes = adapter.limits.batch_sizes;
  for (const std::string& model : models) {
    ASSIGN_OR_RETURN(plan::LatencyByCores latencies, latencies_of(options, model, adapter));
    if (latencies.empty()) continue;
    cores.problem.names.push_back(model);
    cores.problem.variants.push_back(std::move(latencies));
  }
  if (cores.problem.names.empty()) return absl::OkStatus();
  cores.answer = plan::base_allocation(cores.problem.variants, cores.problem.batch_sizes,
                                       cores.problem.threshold_rps);
  for (size_t v = 0; v < cores.problem.names.size(); ++v) {
    if (cores.answer.cores[v] || adapter.threads.contains(cores.problem.names[v])) continue;
    const uint32_t most = cores.problem.variants[v].rbegin()->first;
    spdlog::warn(
        "service '{}': no profiled number of threads lets a replica of '{}' serve {:.6g} "
        "requests/s and its largest batch end within {:.6g} ms, so it has {}",
        service, cores.problem.names[v], adapter.threshold_rps, cores.answer.sla_ms, most);
  }
  adapter.cores.push_back(std::move(cores));
  return absl::OkStatus();
}

// What the user says of a model, else what was added, else `otherwise`.
uint32_t threads_of(const AdapterOptions& adapter, const std::string& stage,
                    const std::string& model, uint32_t otherwise) {
  if (const auto said = adapter.threads.find(model); said != adapter.threads.end()) {
    return said->second;
  }
  for (const AdapterOptions::Cores& cores : adapter.cores) {
    if (cores.stage != stage) continue;
    const auto at = absl::c_find(cores.problem.names, model) - cores.problem.names.begin();
    if (static_cast<size_t>(at) == cores.problem.names.size()) break;
    return cores.answer.cores[at].value_or(cores.problem.variants[at].rbegin()->first);
  }
  return otherwise;
}

// Of a stage: the models that may answer it; empty: they are no models, or an ensemble.
std::vector<std::string> models_of_stage(const EngineOptions& options, const std::string& service) {
  const auto at =
      absl::c_find_if(options.services, [&](const auto& s) { return s.name == service; });
  if (at == options.services.end()) return {service};
  if (!members_of(*at).empty() || at->ensemble || at->stream) return {};
  if (at->variants) return at->variants->models;
  return {at->model_name()};
}

// The type of worker with so many threads, made if need be.
uint32_t type_with(uint32_t threads, WorkerOptions& workers) {
  for (uint32_t t = 0; t < workers.types.size(); ++t) {
    if (workers.types[t].threads == threads) return t;
  }
  WorkerType type = workers.types.front();
  type.name = fmt::format("threads-{}", threads);
  type.count = 0;
  type.threads = threads;
  workers.types.push_back(std::move(type));
  return static_cast<uint32_t>(workers.types.size() - 1);
}

absl::Status prepare(EngineOptions& options, ServiceOptions& service) {
  AdapterOptions& own = *service.pipeline->adapter;
  const WorkerType worker = options.workers.types.front();
  const double cores = static_cast<double>(options.workers.count()) * worker.threads;
  std::set<std::string> known;
  double least = 0;  // every stage needs a replica
  for (const PipelineOptions::Stage& stage : service.pipeline->stages) {
    if (stage.op != nullptr) continue;
    const std::vector<std::string> models = models_of_stage(options, stage.service);
    if (models.empty()) {
      return invalid(
          "service '{}': stage '{}' is the service '{}', expected a model or variants that are "
          "models where replicas are dedicated",
          service.name, stage.name, stage.service);
    }
    RETURN_IF_ERROR(allocate_cores(options, service.name, stage.name, models, own));
    uint32_t fewest = ~uint32_t{0};
    for (const std::string& model : models) {
      known.insert(model);
      const uint32_t threads = threads_of(own, stage.name, model, worker.threads);
      fewest = std::min(fewest, threads);
      const std::string route = stage_route(stage_route(service.name, stage.name), model);
      own.variants.push_back({route, model, type_with(threads, options.workers), threads});
    }
    least += fewest;
  }
  for (const auto& [model, threads] : own.threads) {
    if (known.contains(model)) continue;
    return invalid("service '{}': adapter.threads names '{}', which no stage runs", service.name,
                   model);
  }
  own.limits.max_cost = std::max(least, std::min(own.limits.max_cost, cores));
  for (AdapterOptions::Variant& variant : own.variants) {
    const double room = own.limits.max_cost / variant.threads;
    variant.most = static_cast<uint32_t>(std::max(1.0, std::min(room, own.limits.max_replicas)));
  }
  return absl::OkStatus();
}

bool is_dedicated(const ServiceOptions& service) {
  return service.pipeline && service.pipeline->adapter && service.pipeline->adapter->dedicated;
}

// Those of dedicated stages, but for what a service of its own, or another one, runs too.
std::set<std::string> found_models(const EngineOptions& options,
                                   const std::vector<ServiceOptions>& streams) {
  std::set<std::string> models, of_stages;
  for (const ServiceOptions& service : options.services) {
    if (!is_dedicated(service)) continue;
    for (const auto& variant : service.pipeline->adapter->variants) models.insert(variant.model);
    for (const auto& stage : service.pipeline->stages) {
      of_stages.insert(stage_route(service.name, stage.name));
    }
  }
  for (const ServiceOptions& service : options.services) {
    if (is_dedicated(service) || of_stages.contains(service.name)) continue;
    if (service.pipeline) {
      for (const auto& stage : service.pipeline->stages) models.erase(stage.service);
    } else if (service.variants || service.ensemble) {
      const auto& own = service.variants ? service.variants->models : service.ensemble->models;
      for (const std::string& model : own) models.erase(model);
    } else {
      models.erase(service.model_name());
    }
  }
  for (const ServiceOptions& stream : streams) {
    for (const auto& variant : stream.stream->variants) models.erase(variant.service);
  }
  return models;
}

}  // namespace

absl::Status prepare_dedicated(EngineOptions& options, const std::vector<ServiceOptions>& streams) {
  const bool alike = options.workers.types.size() == 1 &&
                     !std::isfinite(options.workers.least_memory_mb()) &&
                     options.workers.residency == Residency::kPlaced;
  for (ServiceOptions& service : options.services) {
    if (!is_dedicated(service)) continue;
    if (!alike) {
      return invalid(
          "service '{}': adapter.replicas: dedicated needs workers of one type without memory_mb",
          service.name);
    }
    ASSIGN_OR_RETURN(const auto scheduler, policy::make_scheduler(options.policy));
    if (!scheduler->workers_may_leave()) {
      return invalid("service '{}': adapter.replicas: dedicated needs another scheduler than '{}'",
                     service.name, options.policy);
    }
    RETURN_IF_ERROR(prepare(options, service));
  }
  options.replica_models = found_models(options, streams);
  return absl::OkStatus();
}

}  // namespace fermata::engine
