#include "serve/check.h"

#include <set>

#include "base/status.h"
#include "engine/host/registry.h"
#include "model/repository.h"

namespace fermata::serve {
namespace {

std::vector<std::string> service_names(const Config& config, const std::string& model) {
  std::vector<std::string> names;
  for (const auto& service : engine::services_of(config.engine, model)) {
    names.push_back(service.name);
  }
  return names;
}

}  // namespace

CheckReport check(const Config& config) {
  CheckReport report;
  const auto names = model_names(config.engine.repository);
  if (!names.ok()) {
    report.findings.emplace_back(message(names.status()));
    return report;
  }
  if (names->empty()) {
    report.findings.push_back(
        fmt::format("{}: no folder, expected one for each model", config.engine.repository));
  }
  for (const std::string& name : *names) {
    const auto folder = read_model_folder(config.engine.repository, name);
    if (folder.ok()) {
      report.models.push_back({name, folder->versions, service_names(config, name)});
    } else {
      report.findings.emplace_back(message(folder.status()));
    }
  }
  const std::set<std::string> known(names->begin(), names->end());
  for (const engine::ServiceOptions& service : config.engine.services) {
    if (!known.contains(service.model)) {
      report.findings.push_back(fmt::format("$.services.{}.model: \"{}\", expected a folder of {}",
                                            service.name, service.model, config.engine.repository));
    }
  }
  return report;
}

}  // namespace fermata::serve
