#include "tune/setup.h"

#include <algorithm>

#include "estimate/subset.h"
#include "policy/scheduler.h"

namespace fermata::tune {
namespace {

std::vector<std::string> shown_members(const engine::ServiceOptions& options) {
  std::vector<std::string> members;
  if (options.variants) return options.variants->models;
  if (options.ensemble) return options.ensemble->models;
  if (options.pipeline) {
    for (const auto& stage : options.pipeline->stages) members.push_back(stage.name);
  } else if (options.stream) {
    for (const auto& variant : options.stream->variants) members.push_back(variant.service);
  } else if (options.model_name() != options.name) {
    members.push_back(options.model_name());
  }
  return members;
}

ServiceFacts::Kind kind_of(const engine::ServiceOptions& options) {
  if (options.variants) return ServiceFacts::Kind::kVariants;
  if (options.ensemble) return ServiceFacts::Kind::kEnsemble;
  if (options.pipeline) return ServiceFacts::Kind::kPipeline;
  return options.stream ? ServiceFacts::Kind::kStream : ServiceFacts::Kind::kModel;
}

}  // namespace

std::string_view name(ServiceFacts::Kind kind) {
  switch (kind) {
    case ServiceFacts::Kind::kModel:
      return "model";
    case ServiceFacts::Kind::kVariants:
      return "variants";
    case ServiceFacts::Kind::kEnsemble:
      return "ensemble";
    case ServiceFacts::Kind::kPipeline:
      return "pipeline";
    case ServiceFacts::Kind::kStream:
      break;
  }
  return "stream";
}

std::vector<ServiceFacts> facts_of(const engine::EngineOptions& options,
                                   const engine::Catalog& catalog) {
  std::vector<ServiceFacts> all;
  for (const auto& service : catalog.services) {
    ServiceFacts& facts = all.emplace_back();
    facts.name = service->name;
    facts.ready = !service->versions.empty();
    const auto own = std::find_if(options.services.begin(), options.services.end(),
                                  [&](const auto& each) { return each.name == service->name; });
    if (own != options.services.end()) {
      facts.configured = true;
      facts.kind = kind_of(*own);
      facts.slo = own->slo;
      facts.members = shown_members(*own);
    }
    if (facts.kind == ServiceFacts::Kind::kModel && facts.ready) {
      facts.accuracy = service->versions.back()->profile.answers.accuracy;
    }
  }
  return all;
}

std::vector<std::string> schedulers_for(const engine::EngineOptions& options) {
  bool variants = false, ensembles = false;
  for (const engine::ServiceOptions& each : options.services) {
    variants = variants || each.variants;
    ensembles = ensembles || each.ensemble;
  }
  policy::ServiceSettings settings = options.groups;
  settings.rules.reset();  // they are the server's own policy's
  std::vector<std::string> names;
  for (const std::string_view name : policy::all_scheduler_names()) {
    const auto made = policy::make_scheduler(name, settings);
    if (!made.ok() || (variants && !(*made)->serves(policy::Kind::kVariants))) continue;
    if (ensembles && !(*made)->serves(policy::Kind::kEnsemble)) continue;
    names.emplace_back(name);
  }
  return names;
}

std::string subset_name(const std::vector<std::string>& models, uint32_t subset) {
  return estimate::name(subset, models);
}

}  // namespace fermata::tune
