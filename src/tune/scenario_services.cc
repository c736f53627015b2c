// Models, variants services and ensembles of a recording.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "engine/schedule/key_table.h"
#include "model/latency_document.h"
#include "tune/scenario_maker.h"
#include "tune/setup.h"

namespace fermata::tune {
namespace {

constexpr uint32_t kExamples = 100;  // that stand for an ensemble's queries

std::string_view name_of(plan::PenaltyShape shape) {
  switch (shape) {
    case plan::PenaltyShape::kStep:
      return "step";
    case plan::PenaltyShape::kLinear:
      return "linear";
    case plan::PenaltyShape::kSigmoid:
      return "sigmoid";
    default:
      return "none";
  }
}

Json write_penalty(const plan::Penalty& penalty) {
  if (penalty.shape == plan::PenaltyShape::kConstant) return {{"constant", penalty.constant}};
  return name_of(penalty.shape);
}

}  // namespace

std::string ScenarioMaker::model(const std::string& name, const std::string& service) {
  if (const auto known = models_.find(name); known != models_.end()) return known->second;
  const engine::Service* const found = find(service.empty() ? name : service);
  std::string own = service;
  if (own.empty()) own = find(name) != nullptr && found->model != name ? "model " + name : name;
  models_[name] = own;
  return own;
}

// The first service of a model is the model; the others are pipelines of that one stage, which
// share its batches.
void ScenarioMaker::add_model_service(const engine::Service& service, Json own) {
  const engine::Variant& variant = *service.versions.back();
  const auto known = models_.find(service.model);
  if (known != models_.end()) {
    if (known->second == service.name) return;  // it is there already, and nobody calls it itself
    own["stages"] = {{{"name", known->second}, {"service", known->second}}};
    made_pipelines_.push_back(std::move(own));
    return;
  }
  model(service.model, service.name);
  own["latency_ms"] = latency(variant);
  own["max_batch"] = variant.signature.max_batch;
  made_models_.push_back(std::move(own));
}

Json ScenarioMaker::latency(const engine::Variant& variant) const {
  const auto measured = measured_.find(variant.id);
  const auto on = [&](uint32_t type) {
    const auto profile = engine::believed_latency(variant, 0.5, 1, type);
    if (measured != measured_.end() && type < measured->second.size() &&
        !measured->second[type].empty()) {
      return write_latency(measured->second[type].table(*profile));
    }
    return write_latency(MeasuredLatency().table(*profile));
  };
  if (type_names_.size() <= 1) return on(0);
  Json by_type = Json::object();
  for (uint32_t type = 0; type < type_names_.size(); ++type) by_type[type_names_[type]] = on(type);
  return by_type;
}

Json ScenarioMaker::variants_service(const engine::Service& service, Json own) {
  const auto& info = std::get<policy::VariantsInfo>(*service.info);
  const engine::ServiceOptions& options = *options_of(service.name);
  own["penalty"] = write_penalty(info.penalty);
  if (own["slo_ms"].is_null()) note("'" + service.name + "' has no slo_ms of its own");
  if (!info.prior.empty()) {
    note(fmt::format("'{}' is replayed without what its requests' data said", service.name));
  }
  Json variants = Json::array();
  const auto& models = options.variants->models;
  for (size_t v = 0; v < std::min(models.size(), info.variants.size()); ++v) {
    variants.push_back({{"model", model(models[v])}, {"accuracy", info.variants[v].accuracy}});
  }
  own["variants"] = std::move(variants);
  return own;
}

// Its queries are examples that are as often right, by subset and difficulty, as its profile says.
Json ScenarioMaker::ensemble(const engine::Service& service, Json own) {
  const auto& info = std::get<policy::EnsembleInfo>(*service.info);
  const std::vector<std::string>& models = options_of(service.name)->ensemble->models;
  Json members = Json::array(), profile = Json::array(), examples = Json::array();
  std::vector<std::string> names;
  for (const std::string& each : models) {
    names.push_back(model(each));
    members.push_back({{"model", names.back()}});
  }
  note(fmt::format("the answers of '{}' are right as often as its profile says", service.name));
  for (size_t bin = 0; bin < info.utility.size(); ++bin) {
    Json utility = Json::object();
    const std::vector<double>& own_utility = info.utility[bin];
    for (size_t subset = 1; subset < own_utility.size(); ++subset) {
      utility[subset_name(names, static_cast<uint32_t>(subset))] =
          std::clamp(own_utility[subset], 0.0, 1.0);
    }
    profile.push_back({{"share", info.share[bin]}, {"utility", std::move(utility)}});
    const auto count = static_cast<uint32_t>(std::ceil(info.share[bin] * kExamples));
    for (uint32_t i = 0; i < count; ++i) {
      Json correct = Json::array();
      for (size_t subset = 1; subset < own_utility.size(); ++subset) {
        correct.push_back((i + 0.5) / count < own_utility[subset]);
      }
      examples.push_back({{"bin", bin}, {"correct", std::move(correct)}});
    }
  }
  own["models"] = std::move(members);
  own["mode"] = info.serve_all ? "serve-all" : "reject";
  own["profile"] = std::move(profile);
  if (info.utility.size() > 1) own["score_delay_ms"] = 0;
  own["examples"] = std::move(examples);
  return own;
}

}  // namespace fermata::tune
