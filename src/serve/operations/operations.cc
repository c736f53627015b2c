#include "serve/operations/operations.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/status.h"
#include "engine/services/adapter.h"
#include "plan/ensemble/ensemble_document.h"
#include "plan/ensemble/pool_document.h"
#include "plan/pipeline/pipeline_document.h"
#include "plan/streams/stream_document.h"
#include "plan/variants/group_document.h"
#include "serve/operations/placement_json.h"

namespace fermata::serve {
namespace {

constexpr std::string_view kExtensions[] = {
    "classification",     "model_repository", "model_configuration", "system_shared_memory",
    "binary_tensor_data", "parameters",       "statistics",
};

void describe(const Signature& signature, const TensorSpec& spec,
              inference::ModelMetadataResponse::TensorMetadata& out) {
  out.set_name(spec.name);
  out.set_datatype(std::string(name(spec.datatype)));
  for (const int64_t dim : signature.wire_shape(spec)) out.add_shape(dim);
}

absl::StatusOr<std::optional<std::string>> config_of(
    const inference::RepositoryModelLoadRequest& request) {
  std::optional<std::string> config;
  for (const auto& [name, value] : request.parameters()) {
    if (name.starts_with("file:")) {
      return unimplemented("parameter {}: models are loaded from the repository only", name);
    }
    if (name != "config") return invalid("parameter {} is unknown, expected config", name);
    if (!value.has_string_param()) return invalid("parameter config is not a string");
    config = value.string_param();
    if (config->size() > Operations::kLongestConfig) {
      return invalid("parameter config has {} bytes, expected at most {}", config->size(),
                     Operations::kLongestConfig);
    }
  }
  return config;
}

constexpr size_t kListed = 5;  // with their reasons; probes keep what they are told

std::string list(const std::vector<engine::ModelStatus>& unserved) {
  std::string text;
  for (size_t i = 0; i < std::min(kListed, unserved.size()); ++i) {
    text += fmt::format("{}'{}' is not served: {}", text.empty() ? "" : "; ", unserved[i].name,
                        unserved[i].reason);
  }
  if (unserved.size() > kListed) text += fmt::format("; and {} more", unserved.size() - kListed);
  return text;
}

}  // namespace

Operations::Operations(engine::Engine& engine, SharedMemory& regions, bool ready_any)
    : engine_(engine), regions_(regions), ready_any_(ready_any) {}

void Operations::stop() {
  leave();
  stopping_.store(true, std::memory_order_relaxed);
}

std::string Operations::why_not_here() const {
  if (leaving_.load(std::memory_order_relaxed)) return "the server stops";
  return engine_.overdue() ? "a run is beyond its limit and has not ended" : "";
}

Readiness Operations::ready() const {
  if (std::string why = why_not_here(); !why.empty()) return {false, std::move(why)};
  const std::vector<engine::ModelStatus> unserved = engine_.unserved();
  if (!engine::serves_any(*engine_.catalog())) {
    return {false,
            fmt::format("no model is served{}{}", unserved.empty() ? "" : ": ", list(unserved))};
  }
  return {ready_any_ || unserved.empty(), list(unserved)};
}

Readiness Operations::ready(std::string_view model, std::string_view version) const {
  if (std::string why = why_not_here(); !why.empty()) return {false, std::move(why)};
  const auto found = engine_.catalog()->find(model, version);
  if (found.ok()) {
    if (std::string why = engine_.why_failing(**found); !why.empty())
      return {false, std::move(why)};
  }
  std::string reason = found.ok() ? "" : std::string(message(found.status()));
  for (const engine::ModelStatus& row : engine_.index()) {
    if (row.name == model && !row.reason.empty()) reason = row.reason;
  }
  return {found.ok(), std::move(reason)};
}

absl::Status Operations::model_ready(const inference::ModelReadyRequest& request,
                                     inference::ModelReadyResponse& response) const {
  response.set_ready(ready(request.name(), request.version()).ready);
  return absl::OkStatus();
}

absl::Status Operations::server_metadata(const inference::ServerMetadataRequest&,
                                         inference::ServerMetadataResponse& response) const {
  response.set_name("fermata");
  response.set_version(FERMATA_VERSION);
  for (const std::string_view extension : kExtensions) {
    response.add_extensions(std::string(extension));
  }
  return absl::OkStatus();
}

absl::Status Operations::model_metadata(const inference::ModelMetadataRequest& request,
                                        inference::ModelMetadataResponse& response) const {
  const auto catalog = engine_.catalog();
  ASSIGN_OR_RETURN(const auto variant, catalog->find(request.name(), request.version()));
  response.set_name(request.name());
  response.set_platform(variant->config.platform());
  for (const auto& version : catalog->find(request.name())->versions) {
    response.add_versions(version->version);
  }
  const Signature& signature = variant->signature;
  for (const TensorSpec& spec : signature.inputs) {
    describe(signature, spec, *response.add_inputs());
  }
  for (const TensorSpec& spec : signature.outputs) {
    describe(signature, spec, *response.add_outputs());
  }
  return absl::OkStatus();
}

absl::Status Operations::model_config(const inference::ModelConfigRequest& request,
                                      inference::ModelConfigResponse& response) const {
  ASSIGN_OR_RETURN(const auto variant, engine_.catalog()->find(request.name(), request.version()));
  *response.mutable_config() = variant->config;
  response.mutable_config()->set_name(request.name());
  return absl::OkStatus();
}

absl::Status Operations::repository_index(const inference::RepositoryIndexRequest& request,
                                          inference::RepositoryIndexResponse& response) const {
  for (const engine::ModelStatus& model : engine_.index()) {
    if (request.ready() && model.state != engine::ModelState::kReady) continue;
    auto& row = *response.add_models();
    row.set_name(model.name);
    row.set_version(model.version);
    row.set_state(std::string(name(model.state)));
    row.set_reason(model.reason);
  }
  return absl::OkStatus();
}

void Operations::load(const inference::RepositoryModelLoadRequest& request, Done done) {
  auto config = config_of(request);
  if (!config.ok()) return done(config.status());
  post(std::move(done),
       [this, model = request.model_name(), config = *std::move(config)]() mutable {
         const absl::Status loaded = engine_.load(model, std::move(config));
         if (loaded.ok()) return loaded;
         return error(loaded.code(), "failed to load '{}': {}", model, message(loaded));
       });
}

void Operations::unload(const inference::RepositoryModelUnloadRequest& request, Done done) {
  post(std::move(done), [this, model = request.model_name()] {
    const absl::Status unloaded = engine_.unload(model);
    return absl::IsNotFound(unloaded) ? absl::OkStatus() : unloaded;  // it is not there: as asked
  });
}

void Operations::post(Done done, absl::AnyInvocable<absl::Status()> work) {
  if (loads_.fetch_add(1) >= kMostLoads) {
    loads_.fetch_sub(1);
    return done(error(absl::StatusCode::kResourceExhausted,
                      "{} loads and unloads are under way already; try again later", kMostLoads));
  }
  background_.post([this, done = std::move(done), work = std::move(work)]() mutable {
    const absl::Status status = stopping_.load(std::memory_order_relaxed)
                                    ? error(absl::StatusCode::kUnavailable, "the server stops")
                                    : work();
    loads_.fetch_sub(1);
    done(status);
  });
}

Json Operations::decisions() const {
  Json group = Json::array(), ensemble = Json::array();
  for (const policy::Problem& problem : engine_.last_problems()) {
    const bool of_variants = std::holds_alternative<plan::GroupProblem>(problem);
    (of_variants ? group : ensemble)
        .push_back(std::visit([](const auto& each) { return plan::to_document(each); }, problem));
  }
  Json streams = Json::array();
  if (const auto decision = engine_.last_stream_decision()) {
    streams.push_back(plan::write_stream_problem(decision->problem));
  }
  Json pipelines = Json::array();
  for (const engine::AdapterDecision& each : engine_.adapter_decisions()) {
    const plan::PipelineDecision& decision = each.decision;
    pipelines.push_back({{"service", each.service},
                         {"number", each.number},
                         {"forecast_rps", each.forecast_rps},
                         {"problem", plan::write_pipeline_problem(decision.problem)},
                         {"answer", plan::write_pipeline_plan(decision.problem, decision.answer)},
                         {"applied", decision.applied}});
    if (each.cores.empty()) continue;
    Json& cores = pipelines.back()["cores"] = Json::array();
    for (const engine::AdapterOptions::Cores& stage : each.cores) {
      cores.push_back({{"stage", stage.stage},
                       {"problem", plan::write_base_allocation_problem(stage.problem)},
                       {"answer", plan::write_base_allocation(stage.problem, stage.answer)}});
    }
  }
  return {{"group", std::move(group)},
          {"ensemble", std::move(ensemble)},
          {"pipelines", std::move(pipelines)},
          {"streams", std::move(streams)}};
}

Json Operations::placement() const {
  return placement_json(engine_.snapshot(), engine_.placement_decisions());
}

absl::Status Operations::shared_memory_status(
    const inference::SystemSharedMemoryStatusRequest& request,
    inference::SystemSharedMemoryStatusResponse& response) const {
  ASSIGN_OR_RETURN(const auto regions, regions_.list(request.name()));
  for (const SharedMemory::Region& region : regions) {
    auto& row = (*response.mutable_regions())[region.name];
    row.set_name(region.name);
    row.set_key(region.key);
    row.set_offset(region.offset);
    row.set_byte_size(region.byte_size);
  }
  return absl::OkStatus();
}

absl::Status Operations::shared_memory_register(
    const inference::SystemSharedMemoryRegisterRequest& request,
    inference::SystemSharedMemoryRegisterResponse&) {
  return regions_.add({request.name(), request.key(), request.offset(), request.byte_size()});
}

absl::Status Operations::shared_memory_unregister(
    const inference::SystemSharedMemoryUnregisterRequest& request,
    inference::SystemSharedMemoryUnregisterResponse&) {
  regions_.remove(request.name());
  return absl::OkStatus();
}

absl::Status Operations::cuda_memory_register() const {
  return unimplemented(
      "CUDA shared memory is not served, use system shared memory or send the tensors");
}

}  // namespace fermata::serve
