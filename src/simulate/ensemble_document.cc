#include "simulate/ensemble_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "simulate/arrivals_document.h"
#include "simulate/demand_document.h"
#include "simulate/variants_document.h"

namespace fermata::simulate {
namespace {

constexpr int64_t kMostBins = 10'000;

std::vector<std::string> names_of(const SimulatedEnsemble& ensemble) {
  std::vector<std::string> names;
  for (const SimulatedVariant& model : ensemble.models) names.push_back(model.name);
  return names;
}

// Subsets that are not named are worth nothing.
std::vector<double> read_utility(Reader value, const SimulatedEnsemble& ensemble) {
  std::vector<double> utility(size_t{1} << ensemble.models.size());
  for (const auto& [name, entry] : value.map()) {
    plan::Subset subset = 1;
    while (subset < utility.size() && ensemble.subset_name(subset) != name) ++subset;
    if (subset == utility.size()) {
      entry.fail("no such field, but subsets: models in their order, joined by +");
      break;
    }
    utility[subset] = entry.between(0, 1);
  }
  return utility;
}

void read_slo(Reader value, SimulatedEnsemble& ensemble) {
  if (is_common_slo(value)) {
    ensemble.slo = ensemble.slo_most = read_slo(value, ensemble.demand);
    return;
  }
  ObjectReader fields = value.object();
  Reader uniform = fields["uniform"];
  std::vector<double> ends;
  for (Reader entry : uniform.list(2)) ends.push_back(entry.between(1e-3, kLongestTimeMs));
  if (value.failed()) return;
  if (ends.size() != 2 || ends[0] > ends[1]) {
    return uniform.fail("the least and the most, in this order");
  }
  ensemble.slo = Duration::from_millis(ends[0]);
  ensemble.slo_most = Duration::from_millis(ends[1]);
}

void read_profile(Reader value, SimulatedEnsemble& ensemble) {
  double sum = 0;
  for (Reader bin : value.list(1)) {
    ObjectReader fields = bin.object();
    ensemble.bins.push_back(fields["share"].between(0, 1, 1.0));
    sum += ensemble.bins.back();
    ensemble.utility.push_back(read_utility(fields["utility"], ensemble));
  }
  if (value.failed()) return;
  if (std::abs(sum - 1) > 1e-6) value.fail(fmt::format("shares that sum to 1, not {:.6f}", sum));
}

plan::Subset read_subset(Reader value, const SimulatedEnsemble& ensemble, size_t at_least = 0) {
  plan::Subset subset = 0;
  const std::vector<std::string> names = names_of(ensemble);
  for (Reader entry : value.list(at_least)) {
    const std::string name = entry.string();
    const auto at = std::find(names.begin(), names.end(), name);
    if (at == names.end()) {
      entry.fail("the name of one of the ensemble's models");
      return 0;
    }
    subset |= plan::Subset{1} << (at - names.begin());
  }
  return subset;
}

EnsembleExample read_example(Reader value, const SimulatedEnsemble& ensemble) {
  ObjectReader fields = value.object();
  EnsembleExample example;
  Reader bin = fields["bin"];
  example.difficulty.bin = static_cast<uint32_t>(bin.integer(0, kMostBins, 0));
  example.difficulty.score = fields["score"].number(example.difficulty.bin);
  if (example.difficulty.bin >= ensemble.utility.size() && !value.failed()) {
    bin.fail(fmt::format("one of the {} bins of the profile", ensemble.utility.size()));
  }
  if (Reader selected = fields["selected"]; selected.present()) {
    example.difficulty.selected = read_subset(selected, ensemble);
  }
  example.correct.push_back(false);
  Reader correct = fields["correct"];
  for (Reader entry : correct.list(1)) example.correct.push_back(entry.boolean());
  const size_t subsets = size_t{1} << ensemble.models.size();
  if (example.correct.size() != subsets && !value.failed()) {
    correct.fail(fmt::format("{} entries, one for each subset of the models", subsets - 1));
  }
  return example;
}

SimulatedEnsemble read_ensemble(Reader value, const Scenario& scenario, ServiceNames& named) {
  static const std::vector<std::string_view> kModes = {"reject", "serve-all"};
  ObjectReader fields = value.object();
  SimulatedEnsemble ensemble;
  ensemble.name = fields["name"].name();
  read_slo(fields["slo_ms"], ensemble);
  ensemble.demand.items = read_items(fields["items"], 1);
  ensemble.share = read_share(fields["share"], 1.0);
  if (Reader arrival = fields["arrival"]; arrival.present()) {
    ensemble.arrival = read_scenario_arrivals(arrival);
  }
  std::set<std::string> names;
  Reader models = fields["models"];
  for (Reader entry : models.list(1)) {
    ObjectReader own = entry.object();
    ensemble.models.push_back(read_runnable(entry, own, scenario, named));
    if (!names.insert(ensemble.models.back().name).second && !value.failed()) {
      entry.fail("a name that no other model of the ensemble has");
    }
    if (ensemble.models.back().name.find('+') != std::string::npos) {
      entry.fail("a name without +, which joins names");
    }
  }
  if (ensemble.models.size() > plan::EnsembleProblem::kMostModels && !value.failed()) {
    models.fail(fmt::format("at most {} models", plan::EnsembleProblem::kMostModels));
  }
  if (value.failed()) return ensemble;
  ensemble.serve_all = fields["mode"].choice(kModes, 0) == 1;
  if (Reader fixed = fields["static"]; fixed.present()) {
    ensemble.fixed = read_subset(fixed, ensemble, 1);
  }
  read_profile(fields["profile"], ensemble);
  if (Reader delay = fields["score_delay_ms"]; delay.present()) {
    ensemble.score_delay = Duration::from_millis(delay.between(0, kLongestTimeMs));
  } else if (scenario.scheduler == "selected") {
    delay.fail("a number, since the scheduler selected waits for it");
  }
  for (Reader entry : fields["examples"].list(1)) {
    ensemble.examples.push_back(read_example(entry, ensemble));
  }
  return ensemble;
}

}  // namespace

std::vector<SimulatedEnsemble> read_ensembles(Reader value, const Scenario& scenario,
                                              ServiceNames& named) {
  std::vector<SimulatedEnsemble> ensembles;
  std::set<std::string> names;
  for (const SimulatedModel& m : scenario.models) names.insert(m.name);
  for (const SimulatedVariants& a : scenario.variants) names.insert(a.name);
  for (Reader entry : value.list(1)) {
    ensembles.push_back(read_ensemble(entry, scenario, named));
    if (!names.insert(ensembles.back().name).second && !value.failed()) {
      entry.fail("a name that no model, application or other ensemble has");
    }
  }
  return ensembles;
}

}  // namespace fermata::simulate
