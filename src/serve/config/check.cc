#include "serve/config/check.h"

#include <map>
#include <utility>

#include "engine/engine.h"
#include "serve/config/divisions.h"

namespace fermata::serve {

CheckReport check(const Config& config,
                  std::function<void(std::string_view model, double share)> opening) {
  engine::EngineOptions options = config.engine;
  options.opening = std::move(opening);
  options.workers.nursery = make_nursery(config);
  engine::Examination found = engine::examine(std::move(options));
  CheckReport report;
  report.findings = std::move(found.findings);
  report.notes = std::move(found.notes);
  for (std::string& line : unknown_in_divisions(config)) report.notes.push_back(std::move(line));
  std::map<std::string, CheckReport::Model> models;
  for (const auto& service : found.catalog->services) {
    if (service->versions.empty()) continue;
    CheckReport::Model& model = models[service->model];
    model.name = service->model;
    model.services.push_back(service->name);
    model.versions.clear();
    for (const auto& variant : service->versions) model.versions.push_back(variant->version);
  }
  for (auto& [name, model] : models) report.models.push_back(std::move(model));
  return report;
}

}  // namespace fermata::serve
