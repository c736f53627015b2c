// Stream services on the engine's workers.
#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "base/status.h"
#include "engine/host/real_engine.h"

namespace fermata::engine {

static bool any_remote(const WorkerOptions& workers) {
  return absl::c_any_of(workers.types, [](const WorkerType& type) { return type.remote; });
}

absl::Status RealEngine::start_streams(const std::vector<ServiceOptions>& services) {
  const std::lock_guard lock(changing_);
  stream_options_ = services;
  return make_streams();
}

// How their workers load ahead, each service in its part of the memory. Only workers that the
// scheduler tells apart may hold different models.
StreamService::Loading RealEngine::loading() {
  StreamService::Loading loading;
  if (options_.workers.residency != Residency::kOnDemand ||
      options_.workers.count() > policy::kMostWorkerTypes) {
    return loading;
  }
  loading.memory_mb =
      options_.workers.least_memory_mb() / static_cast<double>(stream_options_.size());
  loading.model = [this](const std::string& service) { return model_of(service); };
  loading.load = [this](uint32_t worker, std::shared_ptr<const Variant> variant, auto done) {
    pool_->load_ahead(worker, std::move(variant), std::move(done));
  };
  loading.let_go = [this](uint32_t worker, std::shared_ptr<const Variant> variant) {
    pool_->let_go(worker, std::move(variant));
  };
  return loading;
}

StreamCosts::Sources RealEngine::stream_costs() {
  return {.find =
              [this](const std::string& service) {
                const auto route = routes_.read()->find(service, "");
                return route.ok() ? *route : nullptr;
              },
          .runs = [this](const auto& pipeline) { return trees_.runs(pipeline); },
          .hosts_measure = any_remote(options_.workers)};
}

// Those whose variants are all served. Under changing_.
absl::Status RealEngine::make_streams() {
  if (stream_options_.empty()) return absl::OkStatus();
  const auto catalog = routes_.read()->catalog;
  std::function<uint32_t()> there;
  if (any_remote(options_.workers)) {
    there = [this] {
      const auto workers = pool_->worker_statistics();
      return static_cast<uint32_t>(
          absl::c_count_if(workers, [](const auto& worker) { return worker.serving; }));
    };
  }
  const absl::Status made = streams_.start(stream_options_, *catalog, options_.workers.count(),
                                           std::move(there), loading(), stream_costs());
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<const Service>> faces = streams_.faces();
  const bool fresh = faces.size() > stream_faces_;
  stream_faces_ = faces.size();
  for (const ServiceOptions& options : stream_options_) {
    if (std::any_of(faces.begin(), faces.end(),
                    [&](const auto& face) { return face->name == options.name; })) {
      continue;
    }
    faces.push_back(StreamFace::waiting(options, *catalog, streams_.why_waits(options.name)));
  }
  registry_.set_faces(std::move(faces));
  if (fresh || !made.ok() || stream_faces_ < stream_options_.size()) publish();
  return made;
}

JobId RealEngine::submit(InferRequest request, Reply reply) {
  // Frontends ask where its frames go.
  if (!options_.inputs_elsewhere && !streams_.route(request, reply)) return JobId::none();
  const JobId id = pool_->next_id();
  submit_as(id, std::move(request), std::move(reply), /*of_stage=*/false);
  return id;
}

StreamDirection RealEngine::direct(InferRequest request) {
  const std::string name = request.service;
  if (auto direction = streams_.direct(std::move(request))) return *std::move(direction);
  absl::Status why = routes_.read()->catalog->find(name, "").status();
  if (why.ok()) {
    why = error(
        absl::StatusCode::kFailedPrecondition,
        "'{}' is no stream here: this frontend has another configuration than its scheduler", name);
  }
  return {.status = std::move(why)};
}

std::shared_ptr<const Variant> RealEngine::model_of(const std::string& service) const {
  const auto route = routes_.read()->find(service, "");
  if (!route.ok() || (*route)->composite) return {};
  if ((*route)->pipeline == nullptr) return (*route)->variant;
  std::shared_ptr<const Variant> model;
  for (const Pipeline::Stage& stage : (*route)->pipeline->stages) {
    if (stage.op != nullptr) continue;
    if (model != nullptr || !stage.is_model || stage.dedicated) return {};
    model = stage.member;
  }
  return model;
}

}  // namespace fermata::engine
