#include "engine/host/placement_units.h"

#include <algorithm>

#include "absl/strings/str_join.h"

namespace fermata::engine {

PlacementUnits::PlacementUnits(const std::vector<ServiceOptions>& services) {
  std::vector<std::vector<std::string>> groups;
  for (const ServiceOptions& service : services) {
    if (!service.ensemble || service.ensemble->models.size() < 2) continue;
    std::vector<std::string> group = service.ensemble->models;
    const auto shares = [&group](const std::vector<std::string>& other) {
      return std::find_first_of(group.begin(), group.end(), other.begin(), other.end()) !=
             group.end();
    };
    for (auto it = groups.begin(); it != groups.end();) {
      if (!shares(*it)) {
        ++it;
        continue;
      }
      group.insert(group.end(), it->begin(), it->end());
      groups.erase(it);
      it = groups.begin();
    }
    std::sort(group.begin(), group.end());
    group.erase(std::unique(group.begin(), group.end()), group.end());
    groups.push_back(std::move(group));
  }
  for (std::vector<std::string>& group : groups) {
    const std::string unit = absl::StrJoin(group, "+");
    for (const std::string& model : group) units_[model] = unit;
    members_[unit] = std::move(group);
  }
}

const std::string& PlacementUnits::unit_of(const std::string& model) const {
  const auto it = units_.find(model);
  return it == units_.end() ? model : it->second;
}

const std::vector<std::string>& PlacementUnits::members(const std::string& unit) const {
  static const std::vector<std::string> kNone;
  const auto it = members_.find(unit);
  return it == members_.end() ? kNone : it->second;
}

}  // namespace fermata::engine
