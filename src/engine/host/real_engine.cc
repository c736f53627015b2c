#include "engine/host/real_engine.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "engine/confine/machine.h"
#include "engine/confine/processor_quota.h"
#include "engine/host/dependents.h"

namespace fermata::engine {
namespace {

// Of the autoscaling signal: a bad rate of one in a hundred shows.
constexpr Duration kAutoscaleWindow = Duration::seconds(10);

// Those of other hosts may not have come.
uint32_t own_workers(const EngineOptions& options) {
  uint32_t count = 0;
  for (const WorkerType& type : options.workers.types) count += type.remote ? 0 : type.count;
  return count;
}

}  // namespace

RealEngine::RealEngine(EngineOptions options,
                       std::vector<std::unique_ptr<ExecutorFactory>> executors,
                       std::unique_ptr<ExecutorFactory> helpers)
    : options_(std::move(options)),
      units_(options_.services),
      calls_(std::make_shared<ModelCalls>(options_.workers.least.value_or(own_workers(options_)))),
      executors_(std::move(executors)),
      own_helpers_(std::move(helpers)),
      helpers_(own_helpers_ != nullptr ? *own_helpers_ : executors_.front()->here()),
      loader_(options_, executors_),
      registry_(options_),
      routes_(registry_.routes()),
      trees_({.next_id = [this] { return pool_->next_id(); },
              .submit =
                  [this](JobId id, InferRequest request, Reply reply) {
                    submit_as(id, std::move(request), std::move(reply), /*of_stage=*/true);
                  },
              .cancel = [this](JobId id) { cancel(id); },
              .request_parts = options_.limits.request_parts,
              .workers = options_.workers.count(),
              .ahead_bytes = ahead_of_models(options_.limits)},
             options_.operator_threads),
      window_start_{.at = started_} {
  for (const auto& executors : executors_) executors->serve_calls(calls_);
  helpers_.serve_calls(calls_);
}

// A scheduler hands a job whose variant moved to another; none may do so once that other
// may be gone.
RealEngine::~RealEngine() {
  for (const auto& executors : executors_) executors->stop_loading();
  helpers_.stop_loading();
  calls_->close();
  if (pool_ == nullptr) return;
  streams_.stop();
  trees_.stop();
  pool_->close();
  for (auto* timer : {&process_timer_, &epoch_timer_, &window_timer_, &second_timer_}) {
    timer->reset();
  }
  stopping_ = true;
  pool_->settle();
  replicas_->settle();
  evidence_.clear();
  for (const auto& ensemble : ensembles_) ensemble->stop_scoring();
}

std::string RealEngine::workers_in_words() const {
  uint32_t threads = 0;
  for (const WorkerType& type : options_.workers.types) threads += type.count * type.threads;
  const std::optional<double> quota = processor_quota().cores;
  return fmt::format("{} workers with {} threads in all on {} processors{}",
                     options_.workers.count(), threads, own_processors().size(),
                     quota ? fmt::format(", of which the cgroup allows {:.2f}", *quota) : "");
}

void RealEngine::stop_loading() {
  // What was accepted may still need a load.
  if (options_.workers.residency == Residency::kOnDemand) return;
  for (const auto& executors : executors_) executors->stop_loading();
  helpers_.stop_loading();
}

absl::Status RealEngine::start(const std::vector<std::string>& models) {
  const std::lock_guard lock(changing_);
  {
    const std::lock_guard registered(mutex_);
    for (const std::string& model : models) wanted_[model] = true;
  }
  std::map<std::string, Variants> opened;
  spdlog::info("loading {} models for {}", models.size(), workers_in_words());
  for (size_t i = 0; i < models.size(); ++i) {
    const std::string& model = models[i];
    if (options_.opening) {
      options_.opening(model, static_cast<double>(i) / static_cast<double>(models.size()));
    }
    if (auto variants = open(model, std::nullopt); variants.ok()) {
      opened[model] = *variants;
      spdlog::info("model '{}' is opened, {} of {}", model, i + 1, models.size());
    } else {
      (void)unavailable(model, variants.status());
    }
  }
  RETURN_IF_ERROR(prepare(opened));
  RETURN_IF_ERROR(divide_pool(opened));
  {
    const std::lock_guard registered(mutex_);
    RETURN_IF_ERROR(registry_.composites());
  }
  window_timer_ = std::make_unique<Periodic>(kAutoscaleWindow, [this] { close_window(); });
  RETURN_IF_ERROR(make_adapters());
  watch_processes();
  calls_->open(
      {.submit = [this](InferRequest request,
                        Reply reply) { return submit(std::move(request), std::move(reply)); },
       .cancel = [this](JobId id) { cancel(id); }});
  if (memory_is_limited()) {
    epoch_timer_ = std::make_unique<Periodic>(options_.placement.epoch, [this] { end_epoch(); });
  }
  loader_.be_quiet();
  for (const auto& executors : executors_) executors->be_quiet();
  helpers_.be_quiet();
  return absl::OkStatus();
}

// Of every service, so that all that is wrong is said at once: a line each.
absl::Status RealEngine::prepare(const std::map<std::string, Variants>& opened) {
  absl::StatusCode code = absl::StatusCode::kOk;
  std::vector<std::string> wrong;
  for (const ServiceOptions& service : options_.services) {
    absl::Status prepared;
    if (service.variants) prepared = prepare_variants(service, opened);
    if (service.ensemble) prepared = prepare_ensemble(service, opened);
    if (prepared.ok()) continue;
    if (wrong.empty()) code = prepared.code();
    const std::string name = fmt::format("service '{}': ", service.name);
    const bool named = message(prepared).starts_with(name);
    wrong.push_back(named ? std::string(message(prepared)) : name + std::string(message(prepared)));
  }
  return absl::Status(code, absl::StrJoin(wrong, "\n"));
}

// What has to be known before a service of several variants can choose among them.
absl::Status RealEngine::prepare_variants(const ServiceOptions& service,
                                          const std::map<std::string, Variants>& opened) {
  RETURN_IF_ERROR(try_out_variants(service, opened));
  return service.variants->evidence ? index_evidence(service, opened) : absl::OkStatus();
}

// What has to be known before the queries of an ensemble can be scheduled.
absl::Status RealEngine::prepare_ensemble(const ServiceOptions& service,
                                          const std::map<std::string, Variants>& opened) {
  const EnsembleOptions& own = *service.ensemble;
  absl::Status missing;
  const auto find = [&](const std::string& model) -> std::shared_ptr<const Variant> {
    if (model.empty()) return nullptr;
    const auto it = opened.find(model);
    if (it != opened.end()) return it->second.back();
    missing = invalid("service '{}': its model '{}' is not loaded", service.name, model);
    return nullptr;
  };
  const std::string* first = nullptr;  // of those that are models
  for (const std::string& model : own.models) {
    if (own.services.contains(model)) continue;
    find(model);
    if (first == nullptr) first = &model;
  }
  if (first == nullptr) {
    return invalid("service '{}': one of its members must be a model", service.name);
  }
  EnsembleModel::Helpers helpers{find(own.predictor), find(own.gating), find(own.meta)};
  RETURN_IF_ERROR(missing);
  if (options_.policy == "selected" && own.selector == Selector::kNone) {
    return invalid("service '{}': the scheduler 'selected' needs its `selector`", service.name);
  }
  ASSIGN_OR_RETURN(auto model, EnsembleModel::make(service.name, own, std::move(helpers),
                                                   *find(*first), helpers_));
  const std::lock_guard lock(mutex_);
  registry_.set_ensemble(service.name, model.get());
  ensembles_.push_back(std::move(model));
  return absl::OkStatus();
}

absl::Status RealEngine::try_out_variants(const ServiceOptions& service,
                                          const std::map<std::string, Variants>& opened) {
  std::map<std::string, AnswerProfile> answers;
  for (const std::string& model : service.variants->models) {
    const auto it = opened.find(model);
    if (it == opened.end() || service.variants->accuracy.contains(model)) continue;
    if (it->second.back()->profile.answers.accuracy) continue;
    if (!service.variants->labelled) {
      spdlog::warn("service '{}': {}", service.name,
                   unknown_accuracy(model, fmt::format("{}/{}", options_.repository, model)));
      continue;
    }
    spdlog::info("service '{}': trying out how often '{}' is right", service.name, model);
    ASSIGN_OR_RETURN(answers[model],
                     try_out(service, it->second.back(), executors_.front()->here()));
  }
  const std::lock_guard lock(mutex_);
  registry_.add_answers(service.name, std::move(answers));
  return absl::OkStatus();
}

absl::Status RealEngine::index_evidence(const ServiceOptions& service,
                                        const std::map<std::string, Variants>& opened) {
  std::shared_ptr<const Variant> extractor;
  if (const std::string& name = service.variants->evidence->extractor; !name.empty()) {
    const auto it = opened.find(name);
    if (it == opened.end()) {
      return invalid("service '{}': its extractor '{}' is not loaded", service.name, name);
    }
    extractor = it->second.back();
  }
  const Variant* variant = nullptr;
  for (const std::string& model : service.variants->models) {
    if (const auto it = opened.find(model); it != opened.end()) variant = it->second.back().get();
  }
  ASSIGN_OR_RETURN(auto evidence, make_evidence(service, variant, std::move(extractor), helpers_));
  const std::lock_guard lock(mutex_);
  registry_.set_evidence(service.name, evidence.get());
  evidence_.push_back(std::move(evidence));
  return absl::OkStatus();
}

absl::Status RealEngine::serve(const std::string& model, const Loaded& loaded, Duration patience) {
  const auto& [variants, subcluster] = loaded;
  if (variants.empty()) return absl::OkStatus();  // as where nothing could be loaded at the start
  if (!on_shared_workers(model)) return replicas_->load(variants);
  for (size_t i = 0; i <= variants.size(); ++i) {
    absl::Status taken =
        i == variants.size()
            ? replicas_->load(variants)
            : pool_->load(subcluster, variants[i], registry_.tightest_slo(model), patience);
    if (taken.ok()) continue;
    for (size_t k = 0; k < i; ++k) pool_->retire(subcluster, variants[k]->id, true);
    return taken;
  }
  return absl::OkStatus();
}

absl::Status RealEngine::replace(const std::string& model, Loaded next, bool unloading,
                                 Duration patience) {
  RETURN_IF_ERROR(serve(model, next, patience));
  Loaded old;
  {
    const std::lock_guard lock(mutex_);
    old = registry_.put(model, std::move(next));
    publish();
  }
  if (!old.variants.empty()) replan(model);
  for (const auto& variant : old.variants) {
    if (on_shared_workers(model)) pool_->retire(old.subcluster, variant->id, unloading);
    replicas_->retire(*variant, unloading);
  }
  return absl::OkStatus();
}

void RealEngine::publish() {
  const auto before = routes_.read();
  auto routes = registry_.routes();
  for (const auto& service : routes->catalog->services) {
    const Service* known = before->catalog->find(service->name);
    const bool served = known != nullptr && !known->versions.empty();
    if (!served || service->trouble.empty()) continue;
    spdlog::error("service '{}' is not served any more: {}", service->name, service->trouble);
  }
  routes_.publish(std::move(routes));
}

void RealEngine::note(const std::string& model, std::optional<ModelStatus> status) {
  const std::lock_guard lock(mutex_);
  if (status) {
    troubled_[model] = *std::move(status);
  } else {
    troubled_.erase(model);
    quarantined_.erase(model);
  }
}

absl::Status RealEngine::ready(const std::string& model) {
  note(model, {});
  spdlog::info("model '{}' is ready", model);
  const absl::Status streams = make_streams();  // which may have waited for it
  if (!streams.ok()) spdlog::error("{}", message(streams));
  return absl::OkStatus();
}

absl::Status RealEngine::unavailable(const std::string& model, const absl::Status& why) {
  const std::string reason(message(why));
  {
    const std::lock_guard lock(mutex_);
    const auto known = troubled_.find(model);
    if (known != troubled_.end() && known->second.reason == reason) return why;  // said before
  }
  if (absl::IsFailedPrecondition(why)) {
    spdlog::warn("model '{}' is skipped: {}", model, reason);
  } else {
    spdlog::error("model '{}' cannot be loaded: {}", model, reason);
  }
  if (why.code() == absl::StatusCode::kNotFound) {
    note(model, std::nullopt);
    return why;
  }
  note(model, ModelStatus{model, "", ModelState::kUnavailable, reason});
  if (!registry_.loaded().contains(model)) (void)replace(model, {}, true, Duration());
  return why;
}

absl::StatusOr<RealEngine::Variants> RealEngine::open(const std::string& model,
                                                      const std::optional<std::string>& config) {
  note(model, ModelStatus{model, "", ModelState::kLoading, "being loaded"});
  return loader_.load(model, config);
}

// One model that takes long, or does not end, keeps no other from being loaded.
absl::Status RealEngine::load(std::string_view model, std::optional<std::string> config) {
  const std::string name(model);
  RETURN_IF_ERROR(check_is_model(name));
  if (options_.refresh) RETURN_IF_ERROR(options_.refresh(name));
  const std::lock_guard one_at_a_time(opening(name));
  return load_now(name, std::move(config));
}

absl::Status RealEngine::load_now(const std::string& name, std::optional<std::string> config) {
  if (!config) {
    const std::lock_guard lock(mutex_);
    if (const auto kept = overrides_.find(name); kept != overrides_.end()) config = kept->second;
  }
  const absl::StatusOr<Variants> variants = open(name, config);
  const std::lock_guard lock(changing_);
  if (!variants.ok()) return unavailable(name, variants.status());
  for (const ServiceOptions& service : options_.services) {
    if (!service.variants || !absl::c_linear_search(service.variants->models, name)) continue;
    absl::Status tried = try_out_variants(service, {{name, *variants}});
    if (!tried.ok()) return unavailable(name, tried);
  }
  without_room_.erase(name);
  RETURN_IF_ERROR(settle_in(name, *variants));
  const std::lock_guard registered(mutex_);
  if (config) overrides_[name] = *std::move(config);
  wanted_[name] = true;
  return absl::OkStatus();
}

absl::Status RealEngine::check_is_model(const std::string& name) const {
  if (options_.serves && !options_.serves(name)) {
    return not_found("model '{}' is of another division, whose scheduler serves it", name);
  }
  const auto said = [&name](const ServiceOptions& service) { return service.name == name; };
  for (const auto* services : {&options_.services, &stream_options_}) {
    const auto service = absl::c_find_if(*services, said);
    if (service == services->end() || is_stage(name, options_.services)) continue;
    const auto models = models_in_repository(options_);
    if (models.ok() && absl::c_linear_search(*models, name)) continue;
    const std::vector<std::string> needs = all_models_under(*service, options_.services);
    return invalid("'{}' is a service, expected a model{}{}", name, needs.empty() ? "" : ": ",
                   absl::StrJoin(needs, ", "));
  }
  return absl::OkStatus();
}

absl::Status RealEngine::unload(std::string_view model) {
  const std::string name(model);
  RETURN_IF_ERROR(check_is_model(name));
  const std::lock_guard one_at_a_time(opening(name));
  const std::lock_guard lock(changing_);
  {
    const std::lock_guard registered(mutex_);
    if (const auto known = wanted_.find(name); known != wanted_.end()) known->second = false;
    quarantined_.erase(name);
  }
  const auto it = registry_.loaded().find(name);
  const bool waited_for_room = without_room_.erase(name) > 0;
  const bool loaded = it != registry_.loaded().end() && !it->second.variants.empty();
  if (!loaded && !waited_for_room) return not_found("model '{}' is not loaded", name);
  const std::string version = loaded ? it->second.variants.back()->version : "";
  note(name, ModelStatus{name, version, ModelState::kUnavailable, "unloaded"});
  {
    const std::lock_guard registered(mutex_);
    overrides_.erase(name);
  }
  return replace(name, {}, true, Duration());
}

}  // namespace fermata::engine
