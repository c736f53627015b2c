#include "engine/engine.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "base/clock.h"
#include "base/status.h"
#include "engine/driver.h"
#include "engine/loader.h"
#include "engine/periodic.h"
#include "engine/pool_window.h"
#include "engine/published.h"
#include "engine/registry.h"
#include "engine/threaded_scheduler.h"
#include "model/repository.h"
#include "policy/scheduler.h"

namespace fermata::engine {
namespace {

// Of the autoscaling signal: long enough for a bad rate of one in a hundred to show.
constexpr Duration kAutoscaleWindow = Duration::seconds(10);

class RealEngine : public Engine {
 public:
  RealEngine(EngineOptions options, std::unique_ptr<ExecutorFactory> executors,
             std::unique_ptr<policy::Scheduler> scheduler)
      : options_(std::move(options)),
        executors_(std::move(executors)),
        loader_(options_, *executors_),
        registry_(options_),
        routes_(registry_.routes()),
        driver_(std::move(scheduler), options_.latency_quantile, make_workers(),
                [this](std::shared_ptr<Job> job) { adopt(std::move(job)); }),
        window_start_{.at = started_},
        window_timer_(kAutoscaleWindow, [this] { close_window(); }) {}

  // Where the engine's scheduler has threads: once, before anything is loaded.
  void start(ThreadedScheduler& scheduler) {
    scheduler.start([this] { driver_.wake(); });
  }

  Time now() const override { return monotonic_now(); }
  void cancel(JobId job) override { driver_.cancel(job); }
  std::shared_ptr<const Catalog> catalog() const override { return routes_.read()->catalog; }

  JobId submit(InferRequest request, Reply reply) override {
    const JobId id = driver_.next_id();
    auto route = routes_.read()->find(request.service, request.version);
    if (!route.ok()) {
      reply({.status = route.status(),
             .model = request.service,
             .version = request.version,
             .id = request.id,
             .why = {.outcome = Outcome::kInvalid}});
      return id;
    }
    admit_and_queue(id, std::move(request), std::move(reply), *std::move(route));
    return id;
  }

  std::vector<ModelStatus> index() const override;
  absl::Status load(std::string_view model, std::optional<std::string> config) override;
  absl::Status unload(std::string_view model) override;
  EngineSnapshot snapshot() const override;

 private:
  std::vector<std::unique_ptr<Executor>> make_workers() {
    std::vector<std::unique_ptr<Executor>> workers;
    for (uint32_t i = 0; i < options_.workers.count; ++i) workers.push_back(executors_->make());
    return workers;
  }

  void admit_and_queue(JobId id, InferRequest request, Reply reply, std::shared_ptr<Route> route) {
    absl::StatusOr<Admitted> admitted = admit(request, route->variant->signature);
    Gate& gate = *route->gate;
    const bool good = admitted.ok();
    auto job = std::make_shared<Job>(id, std::move(request), std::move(reply), std::move(route),
                                     good ? *std::move(admitted) : Admitted());
    if (!good) {
      job->end(Outcome::kInvalid, admitted.status(), {});
    } else if (!gate.enter()) {
      job->end(
          Outcome::kRefusedQueue,
          error(absl::StatusCode::kResourceExhausted, "the queue of '{}' is full: {} requests wait",
                job->route().service, gate.limit),
          {});
    } else {
      driver_.submit(std::move(job));
    }
  }

  // A reload took the job's variant away between submit and the scheduler: it goes to the
  // one that took its place, or is refused.
  void adopt(std::shared_ptr<Job> job) {
    job->route().gate->leave();
    job->move_to([this](InferRequest request, Reply reply, const Route& old, JobId id) {
      auto route = routes_.read()->find(old.service, request.version);
      if (route.ok() && (*route)->variant->id != old.variant->id) {
        admit_and_queue(id, std::move(request), std::move(reply), *std::move(route));
        return;
      }
      old.counters->count_end(Outcome::kUnavailable, {.arrival = request.arrival, .ended = now()});
      reply({.status = error(absl::StatusCode::kUnavailable, "model '{}' was unloaded",
                             old.variant->model),
             .model = old.service,
             .version = old.variant->version,
             .id = request.id,
             .why = {.outcome = Outcome::kUnavailable}});
    });
  }

  absl::Status replace(const std::string& model, Registry::Variants variants, bool unloading);
  absl::Status serve(const std::string& model, const Registry::Variants& variants);
  // What the index says of a model that is not ready; nothing: it is, or is not there.
  void note(const std::string& model, std::optional<ModelStatus> status);
  void close_window();

  const EngineOptions options_;
  const Time started_ = monotonic_now();
  const std::unique_ptr<ExecutorFactory> executors_;
  std::mutex changing_;  // held by the one load or unload under way, for seconds
  // Of what is registered, for a moment; what changes it holds changing_ too. Never for a request.
  mutable std::mutex mutex_;
  Loader loader_;
  Registry registry_;
  std::map<std::string, ModelStatus> troubled_;  // by model: loading, or why it failed
  Published<Routes> routes_;
  Driver driver_;
  PoolTotals window_start_;  // the timer's own
  AutoscaleSignal autoscale_;
  Periodic window_timer_;
};

// All of them, or none.
absl::Status RealEngine::serve(const std::string& model, const Registry::Variants& variants) {
  for (size_t i = 0; i < variants.size(); ++i) {
    if (absl::Status loaded = driver_.load(variants[i]); !loaded.ok()) {
      for (size_t k = 0; k < i; ++k) driver_.retire(variants[k]->id, true);
      return loaded;
    }
    driver_.add(variants[i], registry_.tightest_slo(model));
  }
  return absl::OkStatus();
}

void RealEngine::note(const std::string& model, std::optional<ModelStatus> status) {
  const std::lock_guard lock(mutex_);
  if (status) {
    troubled_[model] = *std::move(status);
  } else {
    troubled_.erase(model);
  }
}

absl::Status RealEngine::replace(const std::string& model, Registry::Variants variants,
                                 bool unloading) {
  RETURN_IF_ERROR(serve(model, variants));
  Registry::Variants old;
  {
    const std::lock_guard lock(mutex_);
    old = registry_.put(model, std::move(variants));
    routes_.publish(registry_.routes());
  }
  for (const auto& variant : old) driver_.retire(variant->id, unloading);
  return absl::OkStatus();
}

absl::Status RealEngine::load(std::string_view model, std::optional<std::string> config) {
  const std::lock_guard lock(changing_);
  const std::string name(model);
  note(name, ModelStatus{name, "", ModelState::kLoading, "being loaded"});
  auto variants = loader_.load(model, config);
  absl::Status status = variants.status();
  if (status.ok()) status = replace(name, *std::move(variants), false);
  if (status.ok()) {
    note(name, std::nullopt);
    spdlog::info("model '{}' is ready", name);
    return status;
  }
  if (status.code() == absl::StatusCode::kNotFound) {
    note(name, std::nullopt);
  } else {
    note(name, ModelStatus{name, "", ModelState::kUnavailable, std::string(message(status))});
    if (!registry_.loaded().contains(name)) (void)replace(name, {}, true);
  }
  spdlog::error("model '{}' cannot be loaded: {}", name, message(status));
  return status;
}

absl::Status RealEngine::unload(std::string_view model) {
  const std::lock_guard lock(changing_);
  const std::string name(model);
  const auto it = registry_.loaded().find(name);
  if (it == registry_.loaded().end() || it->second.empty()) {
    return not_found("model '{}' is not loaded", name);
  }
  note(name, ModelStatus{name, it->second.back()->version, ModelState::kUnavailable, "unloaded"});
  return replace(name, {}, true);
}

std::vector<ModelStatus> RealEngine::index() const {
  std::map<std::string, ModelStatus> troubled;
  {
    const std::lock_guard lock(mutex_);
    troubled = troubled_;
  }
  std::vector<ModelStatus> rows;
  std::map<std::string, bool> listed;
  for (const auto& service : routes_.read()->catalog->services) {
    for (const auto& variant : service->versions) {
      rows.push_back({service->name, variant->version, ModelState::kReady, ""});
      listed[service->name] = true;
    }
  }
  for (const auto& [name, status] : troubled) {
    if (!listed[name]) rows.push_back(status);
    listed[name] = true;
  }
  if (const auto names = model_names(options_.repository); names.ok()) {
    for (const std::string& name : *names) {
      if (!listed[name]) rows.push_back({name, "", ModelState::kUnavailable, "not loaded"});
    }
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.name < b.name; });
  return rows;
}

EngineSnapshot RealEngine::snapshot() const {
  EngineSnapshot snapshot;
  snapshot.now = now();
  snapshot.started = started_;
  snapshot.policy = options_.policy;
  {
    const std::lock_guard lock(mutex_);
    snapshot.services = registry_.statistics();
    snapshot.autoscale = autoscale_;
  }
  snapshot.workers = driver_.worker_statistics();
  snapshot.control_delay = driver_.control_delay();
  snapshot.batch_keys = driver_.batch_keys();
  return snapshot;
}

void RealEngine::close_window() {
  const PoolTotals totals = totals_of(snapshot());
  const AutoscaleSignal signal = signal_between(window_start_, totals, options_.workers.count);
  window_start_ = totals;
  const std::lock_guard lock(mutex_);
  autoscale_ = signal;
}

absl::Status check(const EngineOptions& options) {
  if (options.workers.count < 1) return invalid("workers.count is 0, expected at least 1");
  if (!(options.latency_quantile >= 0.5 && options.latency_quantile <= 0.99)) {
    return invalid("latency_quantile is {}, expected a number from 0.5 to 0.99",
                   options.latency_quantile);
  }
  if (options.default_max_batch < 1) return invalid("default_max_batch is 0, expected at least 1");
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

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> make_engine(EngineOptions options) {
  RETURN_IF_ERROR(check(options));
  ASSIGN_OR_RETURN(const std::vector<std::string> models, model_names(options.repository));
  for (const ServiceOptions& service : options.services) {
    const std::string& model = service.model.empty() ? service.name : service.model;
    if (!std::binary_search(models.begin(), models.end(), model)) {
      return not_found("service '{}': model '{}' is not in the repository {}", service.name, model,
                       options.repository);
    }
  }
  std::unique_ptr<policy::Scheduler> scheduler;
  ThreadedScheduler* threaded = nullptr;
  if (options.scheduler_threads > 0) {
    ASSIGN_OR_RETURN(auto made, ThreadedScheduler::make(options.policy, options.scheduler_threads));
    threaded = made.get();
    scheduler = std::move(made);
  } else {
    ASSIGN_OR_RETURN(scheduler, policy::make_scheduler(options.policy));
  }
  ASSIGN_OR_RETURN(auto executors, make_executors(options.workers));
  auto engine =
      std::make_unique<RealEngine>(std::move(options), std::move(executors), std::move(scheduler));
  if (threaded != nullptr) engine->start(*threaded);
  // One that fails has said so, in the log and in the index.
  for (const std::string& model : models) (void)engine->load(model, std::nullopt);
  return engine;
}

}  // namespace fermata::engine
