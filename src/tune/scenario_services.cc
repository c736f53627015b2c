// Models, variants services and ensembles of a recording.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "engine/schedule/key_table.h"
#include "model/latency_document.h"
#include "tune/scenario_maker.h"
#include "tune/setup.h"

namespace fermata::tune {
namespace {

constexpr double kLeastMs = 1e-3, kLeastRatio = 1e-4, kMostRatio = 1e6;
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

// Of the powers of two, the largest batch, and the sizes that ran.
TableLatency table_of(const LatencyTable& latency, std::set<uint32_t> sizes, double scale) {
  for (uint32_t items = 1; items < latency.max_batch(); items *= 2) sizes.insert(items);
  sizes.insert(latency.max_batch());
  TableLatency table;
  double longest = 0;
  for (const uint32_t items : sizes) {
    longest = std::max(longest, std::max(latency(items).millis() * scale, kLeastMs));
    table.points_ms[items] = longest;
  }
  return table;
}

double quantile_of(std::vector<double> values, double quantile) {
  if (values.empty()) return 1;
  const auto at = static_cast<ptrdiff_t>(quantile * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<size_t>(at)];
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
  add_latency(variant, own);
  own["max_batch"] = variant.signature.max_batch;
  made_models_.push_back(std::move(own));
}

// What the server believed of it, as far as it was right about all but one of ten runs, and how
// long each really took over that.
void ScenarioMaker::add_latency(const engine::Variant& variant, Json& model) const {
  const double quantile = server_.options.latency_quantile;
  std::vector<std::shared_ptr<const LatencyTable>> believed;
  for (uint32_t type = 0; type < std::max<size_t>(type_names_.size(), 1); ++type) {
    believed.push_back(engine::believed_latency(variant, quantile, 1, type));
  }
  const auto measured = measured_.find(variant.id);
  std::set<uint32_t> sizes;
  Json at = Json::array();
  std::vector<double> ratios;
  if (measured != measured_.end()) {
    for (const MeasuredRun& run : measured->second) {
      const uint32_t type = run.worker < types_.size() ? types_[run.worker] : 0;
      if (type >= believed.size() || run.items > believed[type]->max_batch()) continue;
      sizes.insert(run.items);
      at.push_back(std::max<int64_t>(0, (run.at - recording_.from).nanos() / 1000));
      ratios.push_back(run.took.seconds() / (*believed[type])(run.items).seconds());
    }
  }
  const double scale = quantile_of(ratios, quantile);
  const auto table = [&](uint32_t type) {
    return write_latency(table_of(*believed[type], sizes, scale));
  };
  if (type_names_.size() <= 1) {
    model["latency_ms"] = table(0);
  } else {
    for (uint32_t t = 0; t < type_names_.size(); ++t)
      model["latency_ms"][type_names_[t]] = table(t);
  }
  if (ratios.empty()) return;
  Json over = Json::array();
  for (const double ratio : ratios)
    over.push_back(std::clamp(std::round(ratio / scale * 1e4) / 1e4, kLeastRatio, kMostRatio));
  model["drift"] = {{"at_us", std::move(at)}, {"ratio", std::move(over)}};
}

bool ScenarioMaker::have_names_of_their_own(const engine::ServiceOptions& of) {
  std::set<std::string> names;
  const auto fits = [&](const std::string& each, bool is_service) {
    return names.insert(is_service ? each : model(each)).second;
  };
  if (of.variants) {
    return absl::c_all_of(of.variants->models, [&](const std::string& each) {
      return fits(each, of.variants->services.contains(each));
    });
  }
  return !of.ensemble || absl::c_all_of(of.ensemble->models, [&](const std::string& each) {
    return fits(each, of.ensemble->services.contains(each));
  });
}

Json ScenarioMaker::member(const std::string& name, bool is_service) {
  if (is_service) return {{"service", name}};
  return {{"model", model(name)}};
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
    Json variant = member(models[v], options.variants->services.contains(models[v]));
    variant["accuracy"] = info.variants[v].accuracy;
    variants.push_back(std::move(variant));
  }
  own["variants"] = std::move(variants);
  return own;
}

// Its queries are examples that are as often right, by subset and difficulty, as its profile says.
Json ScenarioMaker::ensemble(const engine::Service& service, Json own) {
  const auto& info = std::get<policy::EnsembleInfo>(*service.info);
  const engine::EnsembleOptions& options = *options_of(service.name)->ensemble;
  Json members = Json::array(), profile = Json::array(), examples = Json::array();
  std::vector<std::string> names;
  for (const std::string& each : options.models) {
    members.push_back(member(each, options.services.contains(each)));
    names.push_back(*members.back().begin());
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
