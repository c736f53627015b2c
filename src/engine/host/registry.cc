#include "engine/host/registry.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status.h"

namespace fermata::engine {
namespace {

void count_answers(Route& route) {
  if (route.composite == nullptr) return;
  for (const auto& variant : route.composite->variants) {
    route.answers.push_back(&route.counters->answered_by(variant->model));
  }
  if (route.variants != nullptr && route.variants->evidence != nullptr) {
    route.answers.push_back(&route.counters->answered_by(std::string(kEvidence)));
  }
}

}  // namespace

absl::StatusOr<std::shared_ptr<Route>> Routes::find(const std::string& service,
                                                    const std::string& version) const {
  if (const auto it = by_service.find(service); it != by_service.end() && !it->second.empty()) {
    if (version.empty()) return it->second.back();
    for (const auto& route : it->second) {
      if (route->variant->version == version) return route;
    }
  }
  const auto found = catalog->find(service, version);
  if (!found.ok()) return found.status();
  return error(absl::StatusCode::kUnavailable, "model '{}' is not ready", service);  // a face only
}

std::shared_ptr<Counters> Routes::counters(const std::string& service) const {
  if (const auto it = by_service.find(service); it != by_service.end() && !it->second.empty()) {
    return it->second.back()->counters;
  }
  const auto it = away.find(service);
  return it == away.end() ? nullptr : it->second;
}

Registry::Loaded Registry::put(const std::string& model, Loaded loaded) {
  return std::exchange(loaded_[model], std::move(loaded));
}

const std::vector<std::string>* models_of(const ServiceOptions& service) {
  if (!members_of(service).empty()) return nullptr;
  if (service.variants) return &service.variants->models;
  return service.ensemble ? &service.ensemble->models : nullptr;
}

std::vector<ServiceOptions> services_of(const EngineOptions& options, const std::string& model) {
  std::vector<ServiceOptions> services;
  bool own_name_taken = false;
  for (const ServiceOptions& service : options.services) {
    own_name_taken = own_name_taken || service.name == model;
    if (service.variants || service.ensemble || service.pipeline) continue;
    if (service.model_name() == model) {
      services.push_back(service);
    }
  }
  if (!own_name_taken) services.push_back({.name = model});
  return services;
}

std::shared_ptr<Counters> Registry::counters(const std::string& service,
                                             const std::string& version) {
  auto& counters = counters_[{service, version}];
  if (counters == nullptr) {
    counters = std::make_shared<Counters>(service, options_.observer.get());
  }
  return counters;
}

std::shared_ptr<Route> Registry::route(const ServiceOptions& service,
                                       const std::shared_ptr<const Variant>& variant,
                                       uint32_t subcluster) {
  auto route = std::make_shared<Route>();
  route->service = service.name;
  route->slo = service.slo;
  route->variant = variant;
  route->subcluster = subcluster;
  auto& gate = gates_[service.name];
  if (gate == nullptr) {
    gate = std::make_shared<Gate>(
        service.queue_limit, std::make_shared<ByteBudget>(
                                 service.held_bytes.value_or(options_.limits.held_bytes), bytes_));
  }
  route->gate = gate;
  route->counters = counters(service.name, variant->version);
  route->part_items = variant->signature.max_batch;
  route->most_parts = options_.limits.request_parts;
  return route;
}

// What the model's own configuration says of its queue, as far as the service does not.
static void follow_queue_policy(const ServiceOptions& service, Route& route) {
  const auto& policy = route.variant->config.dynamic_batching().default_queue_policy();
  const bool rejects = policy.timeout_action() == inference::ModelQueuePolicy::REJECT;
  if (!route.slo && rejects && policy.default_timeout_microseconds() > 0) {
    constexpr uint64_t kLongest = 1'000'000'000'000'000;
    route.slo = Duration::micros(
        static_cast<int64_t>(std::min(policy.default_timeout_microseconds(), kLongest)));
  }
  const uint32_t most = policy.max_queue_size();
  route.gate->limit = most == 0 ? service.queue_limit : std::min(service.queue_limit, most);
}

// Of variants that a pipeline's stage has to itself: no client calls those.
bool is_stage(const std::string& name, const std::vector<ServiceOptions>& services) {
  return absl::c_any_of(services, [&name](const ServiceOptions& service) {
    return service.pipeline && name.starts_with(service.name) &&
           absl::c_any_of(service.pipeline->stages, [&](const PipelineOptions::Stage& stage) {
             return name == stage_route(service.name, stage.name);
           });
  });
}

std::shared_ptr<Service> Registry::new_service(const ServiceOptions& options,
                                               Catalog& catalog) const {
  auto service = std::make_shared<Service>(Service{options.name, options.model_name(), {}, {}});
  if (!is_stage(options.name, options_.services)) catalog.services.push_back(service);
  return service;
}

void Registry::add_service(const ServiceOptions& options, const Loaded& loaded, Catalog& catalog,
                           Routes& routes) {
  const auto service = new_service(options, catalog);
  service->versions = loaded.variants;
  for (const auto& variant : loaded.variants) {
    auto made = route(options, variant, loaded.subcluster);
    follow_queue_policy(options, *made);
    made->dedicated = options_.replica_models.contains(options.model_name());
    routes.by_service[options.name].push_back(std::move(made));
  }
}

void Registry::set_evidence(const std::string& service, EvidenceModel* evidence) {
  of_models_[service].evidence = evidence;
}

void Registry::add_answers(const std::string& service,
                           std::map<std::string, AnswerProfile> answers) {
  for (auto& [model, known] : answers) of_models_[service].answers[model] = std::move(known);
}

void Registry::set_ensemble(const std::string& service, EnsembleModel* model) {
  of_models_[service].ensemble = model;
}

absl::Status Registry::composites() const {
  std::vector<std::string> wrong;
  for (const auto& [name, known] : of_models_) {
    if (!known.composite.ok()) wrong.emplace_back(message(known.composite.status()));
  }
  for (const auto& [name, known] : of_members_) {
    const absl::Status& status = known.pipeline.status();
    if (absl::IsInvalidArgument(status)) wrong.emplace_back(message(status));
  }
  return wrong.empty() ? absl::OkStatus() : invalid("{}", absl::StrJoin(wrong, "\n"));
}

absl::StatusOr<std::shared_ptr<const Composite>> Registry::make(const ServiceOptions& service,
                                                                const OfModels& known,
                                                                Variants variants) {
  const VariantId id(next_public_++);
  if (!service.ensemble) {
    return make_variants_service(service, std::move(variants), known.answers, known.evidence, id);
  }
  if (variants.size() < service.ensemble->models.size() || known.ensemble == nullptr) {
    return std::shared_ptr<const Composite>();
  }
  return make_ensemble_service(service, std::move(variants), known.ensemble, id);
}

// The newest versions of its models that are loaded in one sub-cluster, the one with most of
// them. The same ones make no new composite.
void Registry::gather(const ServiceOptions& service, OfModels& known) {
  std::map<uint32_t, Variants> by_subcluster;
  for (const std::string& model : *models_of(service)) {
    const auto it = loaded_.find(model);
    if (it == loaded_.end() || it->second.variants.empty()) continue;
    by_subcluster[it->second.subcluster].push_back(it->second.variants.back());
  }
  const auto most = std::max_element(
      by_subcluster.begin(), by_subcluster.end(),
      [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  if (most == by_subcluster.end()) {
    known.composite = nullptr;
    return;
  }
  const bool same = known.composite.ok() && *known.composite != nullptr &&
                    known.subcluster == most->first && (*known.composite)->variants == most->second;
  if (same) return;
  known.subcluster = most->first;
  known.composite = make(service, known, most->second);
}

void Registry::add_of_models(const ServiceOptions& options, Catalog& catalog, Routes& routes) {
  OfModels& known = of_models_[options.name];
  gather(options, known);
  const auto service = new_service(options, catalog);
  if (!known.composite.ok()) {
    service->trouble = message(known.composite.status());
  } else if (*known.composite == nullptr) {
    std::vector<std::string> missing;
    for (const std::string& model : *models_of(options)) {
      const auto it = loaded_.find(model);
      if (it == loaded_.end() || it->second.variants.empty()) missing.push_back(model);
    }
    service->trouble = missing.empty() ? "its models are loaded, but not all in one sub-cluster"
                                       : fmt::format("not loaded: {}", fmt::join(missing, ", "));
  } else {
    const std::shared_ptr<const Composite>& composite = *known.composite;
    service->versions = {composite->public_model};
    auto made = route(options, composite->public_model, known.subcluster);
    made->composite = composite;
    made->variants = dynamic_cast<const VariantsService*>(composite.get());
    made->ensemble = dynamic_cast<const EnsembleService*>(composite.get());
    service->info = made->info();
    // Each item is a question of its own, and may be answered by others.
    made->part_items = 1;
    count_answers(*made);
    routes.by_service[options.name].push_back(std::move(made));
  }
}

void Registry::add_of_members(const ServiceOptions& options, Catalog& catalog, Routes& routes) {
  const auto find = [&routes](const std::string& service) -> std::shared_ptr<Route> {
    const auto it = routes.by_service.find(service);
    return it == routes.by_service.end() || it->second.empty() ? nullptr : it->second.back();
  };
  OfMembers& known = of_members_[options.name];
  const std::vector<std::string> names = members_of(options);
  std::vector<std::shared_ptr<const Variant>> members;
  for (const std::string& name : names) {
    const auto member = find(name);
    members.push_back(member == nullptr ? nullptr : member->variant);
  }
  if (!known.pipeline.ok() || *known.pipeline == nullptr || members != known.members) {
    known.members = members;
    const VariantId id(next_public_++);
    const double quantile = options_.latency_quantile;
    const OfModels& parts = of_models_[options.name];
    const auto counted = [this](const std::string& name) { return counters(name, "1"); };
    known.pipeline = options.pipeline
                         ? make_pipeline(options, find, counted, id, quantile)
                         : make_choice(options, find, id, quantile,
                                       {&parts.answers, parts.evidence, parts.ensemble});
  }
  const auto service = new_service(options, catalog);
  if (!known.pipeline.ok()) {
    service->trouble = message(known.pipeline.status());
  } else {
    const std::shared_ptr<const Pipeline>& pipeline = *known.pipeline;
    service->versions = {pipeline->public_model};
    auto made = route(options, pipeline->public_model, 0);
    made->pipeline = pipeline;
    made->composite = pipeline->choice;
    made->variants = pipeline->variants;
    made->ensemble = pipeline->ensemble;
    service->info = made->info();
    if (pipeline->choice != nullptr) made->part_items = 1;
    routes.by_service[options.name].push_back(std::move(made));
    for (size_t s = 0; s < pipeline->stages.size(); ++s) {
      if (pipeline->stages[s].op != nullptr) continue;
      const auto held = find(names[s]);  // what is put in its place below may be read from it
      const Route& member = *held;
      const std::string& name = pipeline->stages[s].route;
      auto stage = route({.name = name}, member.variant, member.subcluster);
      stage->member = names[s];
      stage->part_items = member.part_items;
      stage->composite = member.composite;
      stage->variants = member.variants;
      stage->ensemble = member.ensemble;
      stage->pipeline = member.pipeline;
      stage->dedicated = pipeline->stages[s].dedicated;
      if (stage->pipeline == nullptr) count_answers(*stage);
      routes.by_service[name] = {std::move(stage)};
      for (const Pipeline::Option& option : pipeline->stages[s].options) {
        auto own = route({.name = option.route}, option.variant, member.subcluster);
        own->dedicated = option.threads > 0;
        if (own->dedicated) own->part_items = pipeline->stages[s].part_items;
        routes.by_service[option.route] = {std::move(own)};
      }
    }
  }
}

std::shared_ptr<const Routes> Registry::routes() {
  auto routes = std::make_shared<Routes>();
  auto catalog = std::make_shared<Catalog>();
  for (const auto& [model, loaded] : loaded_) {
    for (const ServiceOptions& service : services_of(options_, model)) {
      add_service(service, loaded, *catalog, *routes);
    }
  }
  for (const ServiceOptions& service : options_.services) {
    if (models_of(service) != nullptr) add_of_models(service, *catalog, *routes);
  }
  // That none contains itself was checked before.
  const auto composites = composites_in_order(options_.services);
  FERMATA_CHECK(composites.ok());
  for (const ServiceOptions* service : *composites) {
    add_of_members(*service, *catalog, *routes);
  }
  for (const auto& face : faces_) {
    std::erase_if(catalog->services, [&](const auto& s) { return s->name == face->name; });
    catalog->services.push_back(face);
  }
  std::sort(catalog->services.begin(), catalog->services.end(),
            [](const auto& a, const auto& b) { return a->name < b->name; });
  for (const auto& service : catalog->services) {
    if (!service->versions.empty()) continue;
    routes->away[service->name] = counters(service->name, "");
  }
  routes->catalog = std::move(catalog);
  return routes;
}

}  // namespace fermata::engine
