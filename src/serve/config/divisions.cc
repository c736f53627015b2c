#include "serve/config/divisions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>

#include "absl/algorithm/container.h"
#include "base/nearest_name.h"
#include "base/status.h"
#include "engine/host/dependents.h"
#include "engine/services/pipeline.h"
#include "model/repository.h"

namespace fermata::serve {
namespace {

constexpr size_t kMostNamed = 8;  // models in a line

size_t division_of(const cluster::Options& cluster, std::string_view model) {
  const auto has = [model](const auto& division) {
    return absl::c_linear_search(division.models, model);
  };
  const auto at = absl::c_find_if(cluster.divisions, has);
  return at == cluster.divisions.end() ? 0 : at - cluster.divisions.begin();
}

// Services are of the division of their models.
absl::Status check_models(const cluster::Options& cluster,
                          const std::vector<engine::ServiceOptions>& services) {
  std::set<std::string> models, others;
  for (const engine::ServiceOptions& service : services) {
    for (const std::string& model : engine::all_models_of(service)) models.insert(model);
    others.insert(service.name);
  }
  for (const auto& division : cluster.divisions) {
    for (const std::string& name : division.models) {
      if (models.contains(name) || !others.contains(name)) continue;
      return invalid("$.cluster.divisions.{}: '{}' is a service, expected its models",
                     division.name, name);
    }
  }
  return absl::OkStatus();
}

// The first of them, and how many more there are.
std::string list(const std::vector<std::string_view>& names) {
  if (names.empty()) return "none";
  const auto end = names.begin() + static_cast<ptrdiff_t>(std::min(names.size(), kMostNamed));
  const std::string some = fmt::format("{}", fmt::join(names.begin(), end, ", "));
  if (end == names.end()) return some;
  return fmt::format("{} and {} more", some, names.end() - end);
}

}  // namespace

absl::Status check_divisions(const cluster::Options& cluster,
                             const std::vector<engine::ServiceOptions>& services) {
  if (cluster.divisions.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(check_models(cluster, services));
  RETURN_IF_ERROR(engine::composites_in_order(services).status());  // else without end
  for (const engine::ServiceOptions& service : services) {
    // One scheduler decides which variant of a stream takes a frame, and knows what each costs.
    const std::vector<std::string> models = service.stream
                                                ? engine::all_models_under(service, services)
                                                : engine::all_models_of(service);
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

std::vector<std::string> unknown_in_divisions(const cluster::Options& cluster,
                                              const std::vector<std::string>& models) {
  std::vector<std::string_view> unnamed(models.begin(), models.end());
  for (const auto& division : cluster.divisions) {
    std::erase_if(unnamed, [&division](const std::string_view model) {
      return absl::c_linear_search(division.models, model);
    });
  }
  std::vector<std::string> lines;
  for (const auto& division : cluster.divisions) {
    for (const std::string& name : division.models) {
      if (absl::c_linear_search(models, name)) continue;
      const auto meant = nearest_name(name, unnamed);
      lines.push_back(fmt::format(
          "cluster.divisions.{}: '{}' is no model of the repository{}; models that no division "
          "names, which are of {}: {}",
          division.name, name, meant ? fmt::format(" (was '{}' meant?)", *meant) : "",
          cluster.divisions.front().name, list(unnamed)));
    }
  }
  return lines;
}

std::vector<std::string> unknown_in_divisions(const Config& config) {
  const auto models = model_names(config.engine.repository);
  if (!models.ok()) return {};
  return unknown_in_divisions(config.cluster, *models);
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
  std::vector<engine::ServiceOptions> streams;
  absl::c_copy_if(engine.services, std::back_inserter(streams),
                  [](const auto& service) { return service.stream.has_value(); });
  engine::add_dependents(elsewhere, engine.services, streams);
  std::erase_if(engine.services, [&elsewhere](const engine::ServiceOptions& service) {
    return elsewhere.contains(service.name);
  });
  if (!cluster.lock.empty()) cluster.lock += "." + name;
  if (cluster.lease.on()) cluster.lease.name += "-" + name;
  return absl::OkStatus();
}

}  // namespace fermata::serve
