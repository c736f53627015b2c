#include "simulate/services_document.h"

#include <fmt/format.h>

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/topological.h"

namespace fermata::simulate {
namespace {

// By name, as sources are numbered.
using Names = absl::flat_hash_map<std::string, size_t>;

Names source_names(const Scenario& scenario) {
  Names names;
  for (const auto& m : scenario.models) names.emplace(m.name, names.size());
  for (const auto& a : scenario.variants) names.emplace(a.name, names.size());
  for (const auto& e : scenario.ensembles) names.emplace(e.name, names.size());
  for (const auto& p : scenario.pipelines) names.emplace(p.name, names.size());
  return names;
}

void make_services(const std::string& of, std::vector<SimulatedVariant>& members,
                   Scenario& scenario) {
  if (!has_services(members)) return;
  for (SimulatedVariant& member : members) {
    if (!member.service_name.empty()) continue;
    if (member.model) {
      member.service_name = scenario.models[*member.model].name;
      continue;
    }
    member.service_name = of + "/" + member.name;
    SimulatedModel& own = scenario.models.emplace_back();
    own.name = member.service_name;
    own.latency = member.latency;
    own.slo = Duration::infinite();
    own.share = 0;
    own.max_batch = member.max_batch;
    own.static_mb = std::exchange(member.memory_mb, 0);
  }
}

// By source; of all that are made of services.
std::vector<std::vector<uint32_t>> members_of(const Scenario& scenario) {
  std::vector<std::vector<uint32_t>> members(scenario.models.size());
  const auto add = [&members](const auto& own) {
    auto& all = members.emplace_back();
    for (const auto& member : own) {
      if (!member.service_name.empty()) all.push_back(static_cast<uint32_t>(member.service));
    }
  };
  for (const SimulatedVariants& a : scenario.variants) add(a.variants);
  for (const SimulatedEnsemble& e : scenario.ensembles) add(e.models);
  for (const SimulatedPipeline& p : scenario.pipelines) add(p.stages);
  return members;
}

std::string name_of(const Names& names, size_t source) {
  for (const auto& [name, at] : names) {
    if (at == source) return name;
  }
  return {};
}

}  // namespace

void resolve_services(Reader root, const ServiceNames& named, Scenario& scenario) {
  for (SimulatedVariants& a : scenario.variants) make_services(a.name, a.variants, scenario);
  for (SimulatedEnsemble& e : scenario.ensembles) make_services(e.name, e.models, scenario);
  const Names names = source_names(scenario);
  const size_t sources = scenario.models.size() + scenario.variants.size() +
                         scenario.ensembles.size() + scenario.pipelines.size();
  if (names.size() < sources) return root.fail("services of which no two have the same name");
  for (const auto& [where, name] : named) {
    if (!names.contains(name)) return where.fail("the name of a service of the document");
  }
  const auto place = [&names](auto& members) {
    for (auto& member : members) {
      if (!member.service_name.empty()) member.service = names.at(member.service_name);
    }
  };
  for (SimulatedVariants& a : scenario.variants) place(a.variants);
  for (SimulatedEnsemble& e : scenario.ensembles) place(e.models);
  for (SimulatedPipeline& p : scenario.pipelines) place(p.stages);
  const TopologicalOrder found = topological_order(members_of(scenario));
  if (found.cycle.empty()) return;
  root.fail(fmt::format("services without a cycle; '{}' contains itself",
                        name_of(names, found.cycle[0])));
}

}  // namespace fermata::simulate
