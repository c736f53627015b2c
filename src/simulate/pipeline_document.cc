#include "simulate/pipeline_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "base/topological.h"
#include "simulate/application_document.h"
#include "simulate/arrivals_document.h"
#include "simulate/demand_document.h"

namespace fermata::simulate {
namespace {

constexpr size_t kMostStages = 1000;

using Names = absl::flat_hash_map<std::string, size_t>;

// Several variants under a name of the stage's own; the first of them to be added.
void read_stage_variants(Reader value, const SimulatedPipeline& pipeline, SimulatedStage& stage,
                         Scenario& scenario) {
  SimulatedApplication own;
  own.name = pipeline.name + "/" + stage.name;
  own.slo = pipeline.slo;
  own.penalty = {plan::PenaltyShape::kStep};  // the request is late then
  own.share = 0;
  std::set<std::string> names;
  for (Reader entry : value.list(1)) {
    own.variants.push_back(read_variant(entry, scenario, 0));
    if (!names.insert(own.variants.back().name).second && !value.failed()) {
      entry.fail("a name that no other variant has");
    }
  }
  stage.service_name = own.name;
  scenario.applications.push_back(std::move(own));
}

SimulatedStage read_stage(Reader value, const SimulatedPipeline& pipeline,
                          std::vector<std::pair<Reader, std::string>>& after, Scenario& scenario) {
  ObjectReader fields = value.object();
  SimulatedStage stage;
  stage.name = fields["name"].string();
  Reader service = fields["service"], variants = fields["variants"];
  if (service.present() == variants.present()) {
    value.fail("either service or variants");
  } else if (service.present()) {
    stage.service_name = service.string();
  } else {
    read_stage_variants(variants, pipeline, stage, scenario);
  }
  for (Reader entry : fields["after"].optional_list()) after.emplace_back(entry, entry.string());
  stage.makes = read_items(fields["makes"], 0);
  stage.when = fields["when"].between(0, 1, 1.0);
  return stage;
}

// In an order in which each stage comes after those that it names; a chain where none names any.
void order_stages(Reader value, std::vector<std::vector<std::pair<Reader, std::string>>> after,
                  SimulatedPipeline& pipeline) {
  auto& stages = pipeline.stages;
  std::vector<std::vector<uint32_t>> before(stages.size());
  const bool chain =
      std::all_of(after.begin(), after.end(), [](const auto& a) { return a.empty(); });
  for (uint32_t s = 0; s < stages.size(); ++s) {
    if (chain && s > 0) before[s] = {s - 1};
    if (stages[s].when < 1 && before[s].empty() && after[s].empty()) {
      return value.fail(
          fmt::format("a stage before '{}', which runs for some only", stages[s].name));
    }
    for (const auto& [entry, named] : after[s]) {
      const std::string& name = named;
      const auto at = std::find_if(stages.begin(), stages.end(),
                                   [&name](const SimulatedStage& t) { return t.name == name; });
      if (at == stages.end()) return entry.fail("the name of another stage");
      before[s].push_back(static_cast<uint32_t>(at - stages.begin()));
    }
  }
  const TopologicalOrder found = topological_order(before);
  if (!found.cycle.empty()) {
    return value.fail(fmt::format("stages without a cycle; '{}' comes after itself",
                                  stages[found.cycle[0]].name));
  }
  std::vector<uint32_t> place(stages.size());
  for (uint32_t p = 0; p < found.order.size(); ++p) place[found.order[p]] = p;
  std::vector<SimulatedStage> ordered;
  for (const uint32_t s : found.order) {
    SimulatedStage& stage = ordered.emplace_back(std::move(stages[s]));
    for (const uint32_t b : before[s]) stage.after.push_back(place[b]);
    std::sort(stage.after.begin(), stage.after.end());
    stage.after.erase(std::unique(stage.after.begin(), stage.after.end()), stage.after.end());
  }
  stages = std::move(ordered);
}

SimulatedPipeline read_pipeline(Reader value, Scenario& scenario) {
  ObjectReader fields = value.object();
  SimulatedPipeline pipeline;
  pipeline.name = fields["name"].string();
  pipeline.slo = read_slo(fields["slo_ms"], pipeline.demand);
  pipeline.demand.items = read_items(fields["items"], 1);
  pipeline.share = fields["share"].non_negative(1.0);
  if (Reader arrival = fields["arrival"]; arrival.present()) {
    pipeline.arrival = read_arrivals(arrival);
  }
  std::vector<std::vector<std::pair<Reader, std::string>>> after;
  std::set<std::string> names;
  Reader stages = fields["stages"];
  for (Reader entry : stages.list(1)) {
    pipeline.stages.push_back(read_stage(entry, pipeline, after.emplace_back(), scenario));
    if (!names.insert(pipeline.stages.back().name).second && !value.failed()) {
      entry.fail("a name that no other stage has");
    }
  }
  if (pipeline.stages.size() > kMostStages) {
    stages.fail(fmt::format("at most {} stages", kMostStages));
  }
  if (!value.failed()) order_stages(stages, std::move(after), pipeline);
  return pipeline;
}

// By name, as sources are numbered.
Names source_names(const Scenario& scenario) {
  Names names;
  for (const auto& m : scenario.models) names.emplace(m.name, names.size());
  for (const auto& a : scenario.applications) names.emplace(a.name, names.size());
  for (const auto& e : scenario.ensembles) names.emplace(e.name, names.size());
  for (const auto& p : scenario.pipelines) names.emplace(p.name, names.size());
  return names;
}

// Services that contain each other contain nothing.
void check_cycles(Reader value, const Scenario& scenario, size_t first) {
  std::vector<std::vector<uint32_t>> members(scenario.pipelines.size());
  for (size_t p = 0; p < members.size(); ++p) {
    for (const SimulatedStage& stage : scenario.pipelines[p].stages) {
      if (stage.service >= first) {
        members[p].push_back(static_cast<uint32_t>(stage.service - first));
      }
    }
  }
  const TopologicalOrder found = topological_order(members);
  if (found.cycle.empty()) return;
  value.fail(fmt::format("services without a cycle; '{}' contains itself",
                         scenario.pipelines[found.cycle[0]].name));
}

}  // namespace

void read_pipelines(Reader value, Scenario& scenario) {
  const std::vector<Reader> entries = value.list(1);
  for (Reader entry : entries) {
    scenario.pipelines.push_back(read_pipeline(entry, scenario));
    const size_t sources = scenario.models.size() + scenario.applications.size() +
                           scenario.ensembles.size() + scenario.pipelines.size();
    if (value.failed()) return;
    if (source_names(scenario).size() < sources) {
      return entry.fail("names that no model, application, ensemble or other pipeline has");
    }
  }
  const Names names = source_names(scenario);
  for (size_t p = 0; p < entries.size(); ++p) {
    for (SimulatedStage& stage : scenario.pipelines[p].stages) {
      const auto source = names.find(stage.service_name);
      if (source == names.end()) {
        return entries[p].fail(fmt::format("stages of services of the document; there is no '{}'",
                                           stage.service_name));
      }
      stage.service = source->second;
    }
  }
  check_cycles(value, scenario,
               scenario.models.size() + scenario.applications.size() + scenario.ensembles.size());
}

}  // namespace fermata::simulate
