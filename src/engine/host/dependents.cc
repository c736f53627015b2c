#include "engine/host/dependents.h"

#include "absl/algorithm/container.h"
#include "base/status.h"
#include "engine/host/registry.h"
#include "model/repository.h"

namespace fermata::engine {

absl::StatusOr<std::vector<std::string>> models_in_repository(const EngineOptions& options) {
  ASSIGN_OR_RETURN(std::vector<std::string> names, model_names(options.repository));
  if (options.serves) std::erase_if(names, [&](const auto& name) { return !options.serves(name); });
  return names;
}

std::vector<std::string> all_models_of(const ServiceOptions& service) {
  if (service.stream) return {};
  const std::vector<std::string>* own = models_of(service);
  std::vector<std::string> models;
  if (own != nullptr) {
    models = *own;
  } else if (members_of(service).empty()) {
    models = {service.model_name()};
  }
  const auto add = [&models](const std::string& model) {
    if (!model.empty()) models.push_back(model);
  };
  if (service.variants && service.variants->evidence) add(service.variants->evidence->extractor);
  if (service.ensemble) {
    for (const std::string& model :
         {service.ensemble->predictor, service.ensemble->gating, service.ensemble->meta}) {
      add(model);
    }
  }
  return models;
}

std::vector<std::string> all_models_under(const ServiceOptions& service,
                                          const std::vector<ServiceOptions>& services) {
  std::vector<std::string> models = all_models_of(service);
  std::vector<std::string> members = members_of(service);
  if (service.stream) {
    for (const auto& variant : service.stream->variants) members.push_back(variant.service);
  }
  for (const std::string& member : members) {
    if (member.empty()) continue;  // an operator
    const auto own = absl::c_find_if(
        services, [&](const auto& s) { return s.name == member && !s.stream; });  // none has those
    const auto below =
        own == services.end() ? std::vector<std::string>{member} : all_models_under(*own, services);
    models.insert(models.end(), below.begin(), below.end());
  }
  std::vector<std::string> once;
  for (std::string& model : models) {
    if (!absl::c_linear_search(once, model)) once.push_back(std::move(model));
  }
  return once;
}

void add_dependents(std::set<std::string>& names, const std::vector<ServiceOptions>& services,
                    const std::vector<ServiceOptions>& streams) {
  if (names.empty()) return;
  const auto lacks = [&names](const std::string& name) { return names.contains(name); };
  const auto composites = composites_in_order(services);
  if (!composites.ok()) return;
  for (const ServiceOptions& service : services) {
    if (absl::c_any_of(all_models_of(service), lacks)) names.insert(service.name);
  }
  for (const ServiceOptions* service : *composites) {
    if (absl::c_any_of(members_of(*service), lacks)) names.insert(service->name);
  }
  for (const ServiceOptions& service : streams) {
    const auto& variants = service.stream->variants;
    if (absl::c_any_of(variants, [&](const auto& v) { return lacks(v.service); })) {
      names.insert(service.name);
    }
  }
}

}  // namespace fermata::engine
