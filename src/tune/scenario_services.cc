// Models, variants services and ensembles of a recording.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
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
constexpr size_t kFewRuns = 10;
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

double quantile_of(std::vector<double> values, double quantile) {
  if (values.empty()) return 1;
  const auto at = static_cast<ptrdiff_t>(quantile * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<size_t>(at)];
}

// By what measured runs exceed what was believed of them: by the quantile of the runs of about
// their size, of all where these are few.
class Excess {
 public:
  explicit Excess(double quantile) : quantile_(quantile) {}
  void add(uint32_t items, double ratio) {
    all_.push_back(ratio);
    by_size_[std::bit_width(items)].push_back(ratio);
  }
  bool empty() const { return all_.empty(); }
  double of(uint32_t items) const {
    const auto own = by_size_.find(std::bit_width(items));
    const bool few = own == by_size_.end() || own->second.size() < kFewRuns;
    return quantile_of(few ? all_ : own->second, quantile_);
  }

 private:
  double quantile_;
  std::vector<double> all_;
  std::map<int, std::vector<double>> by_size_;  // by the number of bits of it
};

// Of the powers of two, the largest batch, and the sizes that ran.
LatencyModel table_of(const LatencyTable& believed, std::set<uint32_t> sizes,
                      const Excess& excess) {
  for (uint32_t items = 1; items < believed.max_batch(); items *= 2) sizes.insert(items);
  sizes.insert(believed.max_batch());
  TableLatency table;
  double longest = 0;
  for (const uint32_t items : sizes) {
    longest = std::max(longest, std::max(believed(items).millis() * excess.of(items), kLeastMs));
    table.points_ms[items] = longest;
  }
  return table;
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
  const auto types = static_cast<uint32_t>(std::max<size_t>(type_names_.size(), 1));
  std::vector<std::shared_ptr<const LatencyTable>> believed;
  for (uint32_t type = 0; type < types; ++type) {
    believed.push_back(engine::believed_latency(variant, quantile, 1, type));
  }
  const auto type_of = [this](const MeasuredRun& run) {
    return run.worker < types_.size() ? types_[run.worker] : 0;
  };
  std::set<uint32_t> sizes;
  std::vector<MeasuredRun> runs;
  Excess excess(quantile);
  if (const auto measured = measured_.find(variant.id); measured != measured_.end()) {
    for (const MeasuredRun& run : measured->second) {
      if (type_of(run) >= types || run.items > believed[type_of(run)]->max_batch()) continue;
      sizes.insert(run.items);
      runs.push_back(run);
      excess.add(run.items, run.took.seconds() / (*believed[type_of(run)])(run.items).seconds());
    }
  }
  std::vector<std::shared_ptr<const LatencyTable>> tables;
  for (uint32_t type = 0; type < types; ++type) {
    const LatencyModel own = table_of(*believed[type], sizes, excess);
    tables.push_back(*LatencyTable::make(own, believed[type]->max_batch()));
    if (types == 1) {
      model["latency_ms"] = write_latency(own);
    } else {
      model["latency_ms"][type_names_[type]] = write_latency(own);
    }
  }
  if (excess.empty()) return;
  std::vector<Duration> said;
  for (const MeasuredRun& run : runs) said.push_back((*tables[type_of(run)])(run.items));
  Json at = Json::array(), ratio = Json::array(), over = Json::array();
  for (const auto& each : some_of(measured_drift(runs, said, recording_.from).moments)) {
    at.push_back(each.at.nanos() / 1000);
    const double own = std::round(each.value.ratio * 1e4) / 1e4;
    ratio.push_back(std::clamp(own, kLeastRatio, kMostRatio));
    over.push_back(each.value.over.nanos() / 1000);
  }
  model["drift"] = {
      {"at_us", std::move(at)}, {"ratio", std::move(ratio)}, {"over_us", std::move(over)}};
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
