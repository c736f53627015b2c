#include "engine/engine.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <set>

#include "absl/algorithm/container.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "engine/apart/apart_executor.h"
#include "engine/host/dependents.h"
#include "engine/host/real_engine.h"
#include "engine/services/adapter.h"
#include "engine/services/dedicated.h"
#include "engine/services/stream_face.h"
#include "model/repository.h"

namespace fermata::engine {
namespace {

absl::Status check(const WorkerOptions& options) {
  if (options.types.empty() || options.types.size() > policy::kMostWorkerTypes) {
    return invalid("workers.types has {} types, expected 1 to {}", options.types.size(),
                   policy::kMostWorkerTypes);
  }
  std::set<std::string> names;
  for (const WorkerType& type : options.types) {
    if (!names.insert(type.name).second) {
      return invalid("workers.types names '{}' twice", type.name);
    }
    if (type.count < 1) return invalid("workers.count is 0, expected at least 1");
    if (!(type.memory_mb > 0)) {
      return invalid("workers.memory_mb is {}, expected a positive number", type.memory_mb);
    }
  }
  const bool any_remote =
      absl::c_any_of(options.types, [](const auto& type) { return type.remote; });
  if (any_remote && options.remote == nullptr) {
    return invalid("workers.types: a type is remote, expected cluster.listen too");
  }
  if (any_remote && (options.residency == Residency::kOnDemand || options.least)) {
    return invalid("workers.types: a type is remote, expected residency placed and no count auto");
  }
  return absl::OkStatus();
}

// Hosts come and go.
absl::Status check_remote(const EngineOptions& options, const policy::Scheduler& scheduler) {
  const auto is_remote = [](const WorkerType& type) { return type.remote; };
  if (absl::c_none_of(options.workers.types, is_remote)) return absl::OkStatus();
  if (!scheduler.workers_may_leave() || options.scheduler_threads > 0) {
    return invalid(
        "a type of workers that is remote needs another scheduler than '{}', and "
        "scheduler_threads 0",
        options.policy);
  }
  for (const ServiceOptions& service : options.services) {
    if (!service.pipeline || !service.pipeline->adapter || !service.pipeline->adapter->dedicated) {
      continue;
    }
    return invalid("service '{}': its replicas are dedicated, and a type of workers is remote",
                   service.name);
  }
  return absl::OkStatus();
}

// What of it needs inputs where requests are scheduled; null: nothing.
const char* why_not_elsewhere(const ServiceOptions& service) {
  if (service.pipeline && service.pipeline->adapter) return "it has an adapter";
  if (service.variants && service.variants->evidence &&
      !service.variants->evidence->extractor.empty()) {
    return "a model extracts its evidence";
  }
  if (!service.ensemble) return nullptr;
  const EnsembleOptions& own = *service.ensemble;
  if (!own.predictor.empty()) return "a model predicts how difficult its queries are";
  if (own.selector != Selector::kNone) return "its `selector` looks at its queries";
  return own.meta.empty() ? nullptr : "a model puts its answers together";
}

// What needs inputs where requests are scheduled.
absl::Status check_elsewhere(const EngineOptions& options) {
  if (!options.inputs_elsewhere) return absl::OkStatus();
  if (!options.workers.all_remote()) {
    return invalid("workers.types: a type is of this host, expected remote: true of all");
  }
  for (const ServiceOptions& service : options.services) {
    const char* why = why_not_elsewhere(service);
    if (why == nullptr) continue;
    return invalid(
        "service '{}': {}, which needs inputs where requests are scheduled: expected `fermata "
        "serve`, which is frontend and scheduler in one process",
        service.name, why);
  }
  return absl::OkStatus();
}

// An answer of the evidence alone would be one without a worker that brings it.
void end_short_circuits(EngineOptions& options) {
  for (ServiceOptions& service : options.services) {
    if (service.variants) service.variants->short_circuit = false;
  }
}

absl::Status check(const EngineOptions& options) {
  if (!(options.latency_quantile >= 0.5 && options.latency_quantile <= 0.99)) {
    return invalid("latency_quantile is {}, expected a number from 0.5 to 0.99",
                   options.latency_quantile);
  }
  RETURN_IF_ERROR(check(options.workers));
  RETURN_IF_ERROR(check_elsewhere(options));
  const std::optional<uint32_t>& subclusters = options.placement.subclusters;
  if (subclusters && (*subclusters < 1 || *subclusters > options.workers.count())) {
    return invalid("placement.subclusters is {}, expected 1 to workers.count, {}", *subclusters,
                   options.workers.count());
  }
  if (options.default_max_batch < 1) return invalid("default_max_batch is 0, expected at least 1");
  if (options.workers.residency == Residency::kOnDemand && options.policy == "nexus") {
    return invalid("workers.residency on_demand needs another scheduler than nexus");
  }
  ASSIGN_OR_RETURN(const auto scheduler, policy::make_scheduler(options.policy));
  if (options.workers.least && (!scheduler->workers_may_leave() || options.scheduler_threads > 0)) {
    return invalid("workers.count auto needs another scheduler than '{}', and scheduler_threads 0",
                   options.policy);
  }
  RETURN_IF_ERROR(check_remote(options, *scheduler));
  for (const ServiceOptions& service : options.services) {
    const bool fits = (!service.variants || scheduler->serves(policy::Kind::kVariants)) &&
                      (!service.ensemble || scheduler->serves(policy::Kind::kEnsemble));
    if (fits || models_of(service) == nullptr) continue;
    return invalid("service '{}': the scheduler '{}' serves no {}", service.name, options.policy,
                   service.variants ? "variants" : "ensembles");
  }
  for (const ServiceOptions& service : options.services) {
    if (service.name.empty()) return invalid("a service has no name");
    if (service.queue_limit < 1) {
      return invalid("service '{}': queue_limit is 0, expected at least 1", service.name);
    }
    if (service.max_batch && (*service.max_batch < 1 || *service.max_batch > 1 << 20)) {
      return invalid("service '{}': max_batch is {}, expected 1 to {}", service.name,
                     *service.max_batch, 1 << 20);
    }
  }
  return absl::OkStatus();
}

// A line each.
absl::Status all_of(absl::StatusCode code, const std::vector<std::string>& wrong) {
  return wrong.empty() ? absl::OkStatus() : absl::Status(code, absl::StrJoin(wrong, "\n"));
}

// Every member is a service or a model, and none contains itself.
absl::Status order_composites(EngineOptions& options, const std::vector<std::string>& models) {
  std::vector<std::string> wrong;
  for (ServiceOptions& service : options.services) {
    if (service.pipeline) RETURN_IF_ERROR(order_stages(service.name, *service.pipeline));
    for (const std::string& member : members_of(service)) {
      const bool known = member.empty() || absl::c_binary_search(models, member) ||
                         absl::c_any_of(options.services, [&member](const ServiceOptions& other) {
                           return other.name == member;
                         });
      if (known) continue;
      wrong.push_back(fmt::format("service '{}': its member '{}' is no service and no model",
                                  service.name, member));
    }
  }
  RETURN_IF_ERROR(all_of(absl::StatusCode::kNotFound, wrong));
  return composites_in_order(options.services).status();
}

// Every variant is a model or a service, of any other kind.
absl::Status check_streams(const std::vector<ServiceOptions>& streams, const EngineOptions& options,
                           const std::vector<std::string>& models) {
  std::vector<std::string> wrong;
  for (const ServiceOptions& service : streams) {
    for (const StreamOptions::Variant& variant : service.stream->variants) {
      const auto is_it = [&](const ServiceOptions& s) { return s.name == variant.service; };
      if (absl::c_any_of(streams, is_it)) {
        wrong.push_back(
            fmt::format("service '{}': its variant '{}' is a stream, expected another kind",
                        service.name, variant.service));
        continue;
      }
      if (absl::c_any_of(options.services, is_it)) continue;
      if (absl::c_binary_search(models, variant.service)) continue;
      wrong.push_back(fmt::format("service '{}': its variant '{}' is no service and no model",
                                  service.name, variant.service));
    }
  }
  return all_of(absl::StatusCode::kInvalidArgument, wrong);
}

std::vector<std::string> missing_models(const EngineOptions& options,
                                        const std::vector<std::string>& models) {
  std::vector<std::string> missing;
  for (const ServiceOptions& service : options.services) {
    for (const std::string& model : all_models_of(service)) {
      if (std::binary_search(models.begin(), models.end(), model)) continue;
      missing.push_back(fmt::format("service '{}': model '{}' is not in the repository {}",
                                    service.name, model, options.repository));
    }
  }
  return missing;
}

// Model threads know nothing of each other's keys, nor of what workers hold: who chooses among
// several keys, or loads on demand, is on the thread of the pool's view. Where that is all of
// scheduling, why; else empty.
std::string why_one_thread(const EngineOptions& options) {
  if (options.scheduler_threads == 0) return {};
  const auto chooses = [](const ServiceOptions& s) { return models_of(s) != nullptr; };
  const auto service = absl::c_find_if(options.services, chooses);
  std::string reason;
  if (options.workers.residency == Residency::kOnDemand) {
    reason = "models are loaded on demand";
  } else if (service != options.services.end()) {
    reason = fmt::format("service '{}' has several models", service->name);
  } else {
    return {};
  }
  return fmt::format("scheduler_threads: {}, but one thread schedules, since {}",
                     options.scheduler_threads, reason);
}

std::vector<ServiceOptions> set_streams_apart(EngineOptions& options) {
  std::vector<ServiceOptions> streams = take_streams(options.services);
  options.loads_ahead = !streams.empty();
  return streams;
}

// Models that run beside the workers: of evidence, difficulty, gating, and for putting answers
// together.
uint32_t count_helpers(const EngineOptions& options) {
  uint32_t count = 0;
  for (const ServiceOptions& service : options.services) {
    if (const auto& own = service.ensemble) {
      for (const std::string* one : {&own->predictor, &own->gating, &own->meta}) {
        count += one->empty() ? 0 : 1;
      }
    }
    if (service.variants && service.variants->evidence) {
      count += service.variants->evidence->extractor.empty() ? 0 : 1;
    }
  }
  return count;
}

absl::StatusOr<std::unique_ptr<RealEngine>> make_unstarted(
    EngineOptions options, const std::vector<ServiceOptions>& streams) {
  if (const std::string why = why_one_thread(options); !why.empty()) {
    spdlog::warn(why);
    options.scheduler_threads = 0;
  }
  RETURN_IF_ERROR(check_policy(options));
  RETURN_IF_ERROR(prepare_dedicated(options, streams));
  options.workers.program = options.probe_program;
  std::vector<std::unique_ptr<ExecutorFactory>> executors(options.workers.types.size());
  for (uint32_t type = 0; type < executors.size(); ++type) {
    ASSIGN_OR_RETURN(executors[type], make_workers(options.workers, type));
  }
  std::unique_ptr<ExecutorFactory> helpers = make_helpers(options.workers, count_helpers(options));
  return std::make_unique<RealEngine>(std::move(options), std::move(executors), std::move(helpers));
}

// Models that have no version yet, and the services that need them: the server starts without.
std::set<std::string> without_versions(const EngineOptions& options,
                                       const std::vector<ServiceOptions>& streams,
                                       const std::vector<std::string>& models) {
  std::set<std::string> names;
  for (const std::string& model : models) {
    if (absl::IsFailedPrecondition(read_model_folder(options.repository, model).status())) {
      names.insert(model);
    }
  }
  add_dependents(names, options.services, streams);
  return names;
}

// Why a model or service of the index is not served; of a start that has failed, the models, since
// no service is.
void add_troubles(const RealEngine& engine, const std::set<std::string>& skipped,
                  const std::vector<std::string>* only, Examination& found) {
  for (const ModelStatus& row : engine.index()) {
    if (row.state != ModelState::kUnavailable) continue;
    if (only != nullptr && !absl::c_linear_search(*only, row.name)) continue;
    if (skipped.contains(row.name)) {
      found.notes.push_back(fmt::format("model '{}' is skipped: {}", row.name, row.reason));
    } else {
      found.findings.push_back(fmt::format("model '{}': {}", row.name, row.reason));
    }
  }
}

void add_notes(const Catalog& catalog, const std::vector<std::string>& models, Examination& found) {
  std::set<std::string> told;
  for (const auto& service : catalog.services) {
    for (const auto& variant : service->versions) {
      for (const std::string& note : variant->notes) {
        const bool is_model = absl::c_linear_search(models, variant->model);
        const std::string line =
            fmt::format("{} '{}': {}", is_model ? "model" : "service", variant->model, note);
        if (told.insert(line).second) found.notes.push_back(line);
      }
    }
  }
}

}  // namespace

bool serves_any(const Catalog& catalog) {
  return absl::c_any_of(catalog.services,
                        [](const auto& service) { return !service->versions.empty(); });
}

std::vector<AdapterDecision> Engine::adapter_decisions() const { return {}; }
uint32_t Engine::set_workers(uint32_t count) { return count; }

absl::StatusOr<std::unique_ptr<Engine>> make_engine(EngineOptions options) {
  RETURN_IF_ERROR(check(options));
  if (options.inputs_elsewhere) end_short_circuits(options);
  const std::vector<ServiceOptions> streams = set_streams_apart(options);
  ASSIGN_OR_RETURN(const std::vector<std::string> models, models_in_repository(options));
  RETURN_IF_ERROR(order_composites(options, models));
  RETURN_IF_ERROR(check_streams(streams, options, models));
  RETURN_IF_ERROR(all_of(absl::StatusCode::kNotFound, missing_models(options, models)));
  ASSIGN_OR_RETURN(auto engine, make_unstarted(std::move(options), streams));
  // A model that fails has said so, in the log and in the index.
  RETURN_IF_ERROR(engine->start(models));
  RETURN_IF_ERROR(engine->start_streams(streams));
  return engine;
}

Examination examine(EngineOptions options) {
  Examination found{.catalog = std::make_shared<const Catalog>()};
  const auto add = [&found](const absl::Status& status) {
    if (status.ok()) return false;
    for (const absl::string_view line : absl::StrSplit(status.message(), '\n')) {
      found.findings.emplace_back(view(line));
    }
    return true;
  };
  if (add(check(options))) return found;
  std::vector<ServiceOptions> streams = set_streams_apart(options);
  const auto models = models_in_repository(options);
  if (add(models.status())) return found;
  if (models->empty()) {
    found.findings.push_back(fmt::format(
        "{}: no model, expected a folder for each: MODEL/1/model.onnx", options.repository));
  }
  bool wrong = add(order_composites(options, *models));
  wrong = add(check_streams(streams, options, *models)) || wrong;
  wrong = add(all_of(absl::StatusCode::kNotFound, missing_models(options, *models))) || wrong;
  if (wrong) {  // nothing would be served, but what is wrong with models is worth to know too
    options.services.clear();
    streams.clear();
  }
  if (models->empty()) return found;
  if (std::string why = why_one_thread(options); !why.empty()) {
    found.notes.push_back(std::move(why));
  }
  const std::set<std::string> skipped = without_versions(options, streams, *models);
  const auto engine = make_unstarted(std::move(options), streams);
  if (add(engine.status())) return found;
  const bool started = !add((*engine)->start(*models));
  if (started) add((*engine)->start_streams(streams));
  add_troubles(**engine, skipped, started ? nullptr : &*models, found);
  const auto catalog = (*engine)->catalog();
  add_notes(*catalog, *models, found);
  if (!wrong) found.catalog = catalog;
  if (found.findings.empty() && !serves_any(*found.catalog)) {
    found.findings.push_back(
        fmt::format("{}: nothing would be served", (*engine)->options().repository));
  }
  return found;
}

}  // namespace fermata::engine
