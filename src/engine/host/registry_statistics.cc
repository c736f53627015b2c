// What is asked of services, and how they have fared.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "engine/host/registry.h"

namespace fermata::engine {
namespace {

bool answered_by_several(const ServiceOptions& service, const std::string& model) {
  const std::vector<std::string>* models = models_of(service);
  return models != nullptr && absl::c_linear_search(*models, model);
}

}  // namespace

Duration Registry::tightest_slo(const std::string& model) const {
  Duration tightest = Duration::infinite();
  for (const ServiceOptions& service : services_of(options_, model)) {
    if (service.slo) tightest = std::min(tightest, *service.slo);
  }
  for (const ServiceOptions& service : options_.services) {
    if (service.slo && answered_by_several(service, model))
      tightest = std::min(tightest, *service.slo);
  }
  return tightest;
}

std::vector<ServiceStatistics> Registry::statistics() const {
  std::vector<ServiceStatistics> result;
  for (const auto& [name, counters] : counters_) {
    ServiceStatistics statistics = counters->snapshot();
    statistics.service = name.first;
    statistics.version = name.second;
    const bool away = name.second.empty();
    if (away && statistics.fail.count == 0) continue;  // always ready, so far
    const auto gate = gates_.find(name.first);
    statistics.is_operator = !away && gate == gates_.end();
    if (!away && gate != gates_.end()) statistics.pending = gate->second->waiting.load();
    result.push_back(std::move(statistics));
  }
  return result;
}

std::map<std::string, uint64_t> Registry::demand() const {
  std::map<std::string, uint64_t> by_service, by_model;
  for (const auto& [name, counters] : counters_) {
    const ServiceStatistics row = counters->snapshot();
    for (size_t i = 0; i < kOutcomes; ++i) {
      const auto outcome = static_cast<Outcome>(i);
      if (outcome == Outcome::kInvalid || outcome == Outcome::kUnavailable) continue;
      by_service[name.first] += row.outcomes[i];
    }
  }
  for (const ServiceOptions& service : options_.services) {
    const std::vector<std::string> members = members_of(service);
    for (size_t m = 0; m < members.size(); ++m) {
      if (members[m].empty()) continue;
      const std::string& name = service.pipeline ? service.pipeline->stages[m].name : members[m];
      const std::string route = stage_route(service.name, name);
      if (route != members[m]) by_service[members[m]] += by_service[route];
    }
  }
  for (const auto& [model, loaded] : loaded_) {
    for (const ServiceOptions& service : services_of(options_, model)) {
      by_model[model] += by_service[service.name];
    }
    for (const ServiceOptions& service : options_.services) {
      if (!answered_by_several(service, model)) continue;
      by_model[model] += by_service[stage_route(service.name, model)];  // as an adapter planned
      // One of the variants answers, or most of an ensemble's models do.
      const size_t choices = service.variants ? service.variants->models.size() : 1;
      by_model[model] += by_service[service.name] / choices;
    }
  }
  return by_model;
}

}  // namespace fermata::engine
