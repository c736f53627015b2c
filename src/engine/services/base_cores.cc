#include "engine/services/base_cores.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "absl/algorithm/container.h"
#include "base/status.h"
#include "model/profile.h"
#include "model/repository.h"

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

}  // namespace

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

}  // namespace fermata::engine
