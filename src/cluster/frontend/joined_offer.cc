#include "cluster/frontend/joined_offer.h"

#include <algorithm>
#include <set>
#include <string>

namespace fermata::cluster {
namespace {

std::set<std::string> names_of(const std::vector<engine::ModelStatus>& rows) {
  std::set<std::string> names;
  for (const engine::ModelStatus& row : rows) names.insert(row.name);
  return names;
}

// What a division's scheduler offers, but what an earlier one does already.
void add_offer(const Offer& from, Offer& to) {
  const std::set<std::string> there = names_of(to.index);
  for (const engine::ModelStatus& row : from.index) {
    if (!there.contains(row.name)) to.index.push_back(row);
  }
  for (const auto& [name, model] : from.models) {
    engine::ServedModel& known = to.models[name];
    if (known.variants.empty()) known = model;
  }
}

}  // namespace

Offer join_offers(const std::vector<const Offer*>& offers) {
  Offer all;
  for (const Offer* each : offers) add_offer(*each, all);
  return all;
}

void add_services(const engine::Catalog& catalog, std::vector<engine::ModelStatus>& index) {
  const std::set<std::string> there = names_of(index);
  for (const auto& service : catalog.services) {
    if (there.contains(service->name)) continue;
    for (const auto& version : service->versions) {
      index.push_back({service->name, version->version, engine::ModelState::kReady, ""});
    }
  }
  std::stable_sort(index.begin(), index.end(),
                   [](const auto& a, const auto& b) { return a.name < b.name; });
}

}  // namespace fermata::cluster
