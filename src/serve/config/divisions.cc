#include "serve/config/divisions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "absl/algorithm/container.h"
#include "base/status.h"
#include "engine/host/dependents.h"
#include "engine/services/pipeline.h"

namespace fermata::serve {
namespace {

size_t division_of(const cluster::Options& cluster, std::string_view model) {
  const auto has = [model](const auto& division) {
    return absl::c_linear_search(division.models, model);
  };
  const auto at = absl::c_find_if(cluster.divisions, has);
  return at == cluster.divisions.end() ? 0 : at - cluster.divisions.begin();
}

}  // namespace

absl::Status check_divisions(const cluster::Options& cluster,
                             const std::vector<engine::ServiceOptions>& services) {
  if (cluster.divisions.empty()) return absl::OkStatus();
  for (const engine::ServiceOptions& service : services) {
    const std::vector<std::string> models = engine::all_models_of(service);
    for (const std::string& model : models) {
      const size_t first = division_of(cluster, models[0]), own = division_of(cluster, model);
      if (own == first) continue;
      return invalid(
          "service '{}': expected models of one division: '{}' is in cluster.divisions.{}, '{}' in "
          "{}",
          service.name, models[0], cluster.divisions[first].name, model,
          cluster.divisions[own].name);
    }
  }
  return absl::OkStatus();
}

absl::Status take_division(const std::string& name, cluster::Options& cluster,
                           engine::EngineOptions& engine) {
  std::vector<std::string> names;
  for (const auto& division : cluster.divisions) names.push_back(division.name);
  if (names.empty() && name.empty()) return absl::OkStatus();
  const auto at = absl::c_find(names, name);
  if (at == names.end()) {
    return invalid("--division{}: expected {}", name.empty() ? "" : " " + name,
                   names.empty() ? "none, since cluster.divisions names none"
                                 : fmt::format("one of {}", fmt::join(names, ", ")));
  }
  const size_t own = at - names.begin();
  engine.serves = [cluster, own](std::string_view model) {
    return division_of(cluster, model) == own;
  };
  RETURN_IF_ERROR(engine::composites_in_order(engine.services).status());  // else without end
  std::set<std::string> elsewhere;
  for (const engine::ServiceOptions& service : engine.services) {
    for (const std::string& model : engine::all_models_under(service, engine.services)) {
      if (!engine.serves(model)) elsewhere.insert(model);
    }
  }
  engine::add_dependents(elsewhere, engine.services, {});
  std::erase_if(engine.services, [&elsewhere](const engine::ServiceOptions& service) {
    return elsewhere.contains(service.name);
  });
  if (!cluster.lock.empty()) cluster.lock += "." + name;
  if (cluster.lease.on()) cluster.lease.name += "-" + name;
  return absl::OkStatus();
}

}  // namespace fermata::serve
