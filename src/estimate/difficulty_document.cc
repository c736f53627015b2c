#include "estimate/difficulty_document.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "base/status.h"

namespace fermata::estimate {
namespace {

constexpr int64_t kMostQueries = int64_t{1} << 53;
constexpr int64_t kMostBins = 1000;
constexpr int64_t kMostNeighbors = 1 << 20;

using ByName = std::unordered_map<std::string, Subset>;

Json measure_json(const DifficultyMeasure& measure, absl::Span<const std::string> models) {
  const SubsetProfile& profile = measure.profile;
  Json bins = Json::array();
  for (size_t bin = 0; bin < profile.bins(); ++bin) {
    Json& utilities = bins.emplace_back(
        Json{{"queries", profile.counts[bin]}, {"utility", Json::object()}})["utility"];
    for (Subset s = 1; s < profile.utilities[bin].size(); ++s) {
      utilities[name(s, models)] = profile.utilities[bin][s];
    }
    if (!profile.gamma.empty()) bins.back()["gamma"] = profile.gamma[bin];
  }
  return {{"norms", measure.norms}, {"edges", profile.edges}, {"bins", bins}};
}

std::vector<double> positive_numbers(Reader reader) {
  std::vector<double> values;
  for (const Reader& value : reader.optional_list()) values.push_back(value.positive());
  return values;
}

std::vector<double> non_negative_numbers(Reader reader) {
  std::vector<double> values;
  for (const Reader& value : reader.list()) values.push_back(value.non_negative());
  return values;
}

std::vector<double> read_edges(Reader reader) {
  std::vector<double> edges;
  for (const Reader& value : reader.list()) {
    const double edge = value.between(0, 1);
    if (!edges.empty() && edge <= edges.back()) {
      value.fail("more than the edge before it");
      break;
    }
    edges.push_back(edge);
  }
  return edges;
}

std::vector<double> read_utility(Reader reader, const ByName& subsets) {
  std::vector<double> utilities(subsets.size() + 1);
  std::set<Subset> found;
  for (const auto& [name, value] : reader.map()) {
    const auto subset = subsets.find(name);
    if (subset == subsets.end()) {
      value.fail("a subset's name: models in the ensemble's order, joined by +");
      return utilities;
    }
    found.insert(subset->second);
    utilities[subset->second] = value.between(0, 1);
  }
  if (found.size() == subsets.size() || reader.failed()) return utilities;
  const auto missing =
      std::min_element(subsets.begin(), subsets.end(), [&](const auto& a, const auto& b) {
        return std::pair(found.contains(a.second), a.second) <
               std::pair(found.contains(b.second), b.second);
      });
  reader.fail(fmt::format("all {} subsets: '{}' is missing", subsets.size(), missing->first));
  return utilities;
}

// Of the last bin.
void read_gamma(Reader reader, size_t models, SubsetProfile& profile) {
  if (!reader.present() && profile.gamma.empty()) return;
  profile.gamma.push_back(non_negative_numbers(reader));
  if (profile.gamma.back().size() + 1 != models ||
      profile.gamma.size() != profile.utilities.size()) {
    reader.fail(fmt::format("{} numbers, in every bin or in none", models - 1));
  }
}

DifficultyMeasure read_measure(Reader reader, const ByName& subsets, size_t norms, size_t models) {
  ObjectReader fields = reader.object();
  DifficultyMeasure measure;
  const Reader norms_reader = fields["norms"];
  measure.norms = non_negative_numbers(norms_reader);
  if (measure.norms.size() != norms) norms_reader.fail(fmt::format("{} numbers", norms));
  SubsetProfile& profile = measure.profile;
  profile.edges = read_edges(fields["edges"]);
  const Reader bins = fields["bins"];
  for (const Reader& bin : bins.list(1)) {
    if (bin.failed()) break;
    ObjectReader parts = bin.object();
    profile.counts.push_back(static_cast<uint64_t>(parts["queries"].integer(1, kMostQueries)));
    profile.utilities.push_back(read_utility(parts["utility"], subsets));
    read_gamma(parts["gamma"], models, profile);
  }
  if (profile.counts.size() != profile.edges.size() + 1 ||
      profile.counts.size() > static_cast<size_t>(kMostBins)) {
    bins.fail(fmt::format("one bin more than there are edges, at most {}", kMostBins));
  }
  return measure;
}

std::vector<std::string> read_models(Reader reader) {
  std::vector<std::string> models;
  for (const Reader& entry : reader.list(1)) {
    const std::string model = entry.string();
    if (model.find('+') != model.npos) entry.fail("a name without +");
    if (std::find(models.begin(), models.end(), model) != models.end()) {
      entry.fail("a model that does not stand there already");
    }
    models.push_back(model);
  }
  if (models.size() > kMostBaseModels) {
    reader.fail(fmt::format("at most {} models", kMostBaseModels));
    models.resize(1);
  }
  return models;
}

// One of the names, as the enumeration whose order they have.
template <class Kind, size_t n>
Kind read_kind(Reader reader, const std::string_view (&names)[n]) {
  return static_cast<Kind>(reader.choice({std::begin(names), std::end(names)}));
}

void read_root(Reader reader, DifficultyProfile& profile) {
  ObjectReader fields = reader.object();
  fields["format"].integer(DifficultyProfile::kFormat, DifficultyProfile::kFormat);
  profile.name = fields["name"].string();
  profile.models = read_models(fields["models"]);
  const auto models = static_cast<uint32_t>(profile.models.size());
  Aggregator& aggregator = profile.aggregator;
  aggregator.prediction = read_kind<Prediction>(fields["task"], kPredictionNames);
  const Reader aggregation = fields["aggregation"];
  aggregator.aggregation = read_kind<Aggregation>(aggregation, kAggregationNames);
  const Reader weights = fields["weights"];
  aggregator.weights = positive_numbers(weights);
  profile.width = static_cast<uint32_t>(fields["width"].integer(1, 1 << 30));
  profile.queries = static_cast<uint64_t>(fields["queries"].integer(1, kMostQueries));
  const Reader temperatures = fields["temperatures"];
  profile.temperatures = positive_numbers(temperatures);
  profile.ensemble_temperature = fields["ensemble_temperature"].positive(1.0);
  profile.tolerance = fields["tolerance"].non_negative(0.0);
  const Reader neighbors = fields["neighbors"];
  const bool stacking = aggregator.aggregation == Aggregation::kStacking;
  if (stacking) profile.neighbors = static_cast<uint32_t>(neighbors.integer(1, kMostNeighbors));
  if (!stacking && neighbors.present()) neighbors.fail("none: nothing is filled but for stacking");
  const bool classes = aggregator.prediction == Prediction::kClassification;
  if (profile.temperatures.size() != (classes ? models : 0)) {
    temperatures.fail(classes ? "one number for each model" : "none: regression has no scores");
  }
  if (const absl::Status suits = aggregator.check(models); !reader.failed() && !suits.ok()) {
    (weights.present() ? weights : aggregation).fail(message(suits));
  }
  if (reader.failed()) return;
  ByName subsets;
  for (Subset s = 1; s <= all_models(models); ++s) subsets[name(s, profile.models)] = s;
  ObjectReader measures = fields["measures"].object();
  profile.discrepancy = read_measure(measures["discrepancy"], subsets, models, models);
  profile.agreement = read_measure(measures["agreement"], subsets, 1, models);
}

}  // namespace

Json difficulty_json(const DifficultyProfile& profile) {
  const Aggregator& aggregator = profile.aggregator;
  Json json = {{"format", DifficultyProfile::kFormat},
               {"name", profile.name},
               {"models", profile.models},
               {"task", name(aggregator.prediction)},
               {"aggregation", name(aggregator.aggregation)},
               {"width", profile.width},
               {"queries", profile.queries}};
  if (profile.neighbors > 0) json["neighbors"] = profile.neighbors;
  if (!aggregator.weights.empty()) json["weights"] = aggregator.weights;
  if (aggregator.prediction == Prediction::kClassification) {
    json["temperatures"] = profile.temperatures;
    json["ensemble_temperature"] = profile.ensemble_temperature;
  } else {
    json["tolerance"] = profile.tolerance;
  }
  json["measures"] = {{"discrepancy", measure_json(profile.discrepancy, profile.models)},
                      {"agreement", measure_json(profile.agreement, profile.models)}};
  return json;
}

DifficultyProfile read_difficulty(Reader reader) {
  DifficultyProfile profile;
  read_root(reader, profile);
  return profile;
}

absl::StatusOr<DifficultyProfile> parse_difficulty(std::string_view json, std::string_view source) {
  absl::StatusOr<Document> document = Document::parse(json, Document::Format::kJson);
  if (!document.ok()) return invalid("{}: {}", source, message(document.status()));
  absl::StatusOr<DifficultyProfile> profile = document->read(read_difficulty);
  if (!profile.ok()) return invalid("{}: {}", source, message(profile.status()));
  return profile;
}

}  // namespace fermata::estimate
