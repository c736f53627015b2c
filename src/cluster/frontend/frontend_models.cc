#include "cluster/frontend/frontend_models.h"

#include <spdlog/spdlog.h>

#include "absl/algorithm/container.h"
#include "base/check.h"
#include "base/status.h"
#include "engine/composite/variants_service.h"

namespace fermata::cluster {
namespace {

// A scheduler refuses for frontends what needs a model.
class NoModels : public engine::ExecutorFactory {
  std::shared_ptr<engine::Executor> make() override {
    FERMATA_CHECK(false);
    return nullptr;
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<FrontendModels>> FrontendModels::make(
    const std::vector<engine::ServiceOptions>& services, engine::Registry& registry) {
  auto made = std::unique_ptr<FrontendModels>(new FrontendModels(services));
  NoModels none;
  for (const engine::ServiceOptions& service : services) {
    if (!service.variants || !service.variants->evidence) continue;
    if (!service.variants->evidence->extractor.empty()) continue;
    ASSIGN_OR_RETURN(auto evidence, engine::make_evidence(service, nullptr, nullptr, none));
    registry.set_evidence(service.name, evidence.get());
    made->evidence_.push_back(std::move(evidence));
  }
  return made;
}

void FrontendModels::serve(const engine::ServedModels& models, engine::Registry& registry) {
  NoModels none;
  for (const engine::ServiceOptions& service : services_) {
    if (!service.ensemble || ensembles_.contains(service.name)) continue;
    const auto base = absl::c_find_if(service.ensemble->models, [&](const std::string& model) {
      const auto it = models.find(model);
      return !service.ensemble->services.contains(model) && it != models.end() &&
             !it->second.variants.empty();
    });
    if (base == service.ensemble->models.end()) continue;
    auto made = engine::EnsembleModel::make(service.name, *service.ensemble, {},
                                            *models.at(*base).variants.back(), none);
    if (!made.ok()) {
      spdlog::error("{}", message(made.status()));
      continue;
    }
    registry.set_ensemble(service.name, made->get());
    ensembles_[service.name] = *std::move(made);
  }
}

}  // namespace fermata::cluster
