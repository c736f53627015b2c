#include "simulate/pipeline_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>

#include "base/topological.h"
#include "plan/pipeline/pipeline_document.h"
#include "simulate/arrivals_document.h"
#include "simulate/demand_document.h"
#include "simulate/variants_document.h"

namespace fermata::simulate {
namespace {

constexpr size_t kMostStages = 1000;

// Several variants under a name of the stage's own; the first of them to be added.
void read_stage_variants(Reader value, const SimulatedPipeline& pipeline, SimulatedStage& stage,
                         Scenario& scenario, ServiceNames& named) {
  SimulatedVariants own;
  own.name = pipeline.name + "/" + stage.name;
  own.slo = pipeline.slo;
  own.share = 0;
  std::set<std::string> names;
  for (Reader entry : value.list(1)) {
    own.variants.push_back(read_variant(entry, scenario, 0, named));
    if (!names.insert(own.variants.back().name).second && !value.failed()) {
      entry.fail("a name that no other variant has");
    }
  }
  stage.service_name = own.name;
  scenario.variants.push_back(std::move(own));
}

SimulatedStage read_stage(Reader value, const SimulatedPipeline& pipeline,
                          std::vector<std::pair<Reader, std::string>>& after, Scenario& scenario,
                          ServiceNames& named) {
  ObjectReader fields = value.object();
  SimulatedStage stage;
  stage.name = fields["name"].name();
  Reader service = fields["service"], variants = fields["variants"];
  if (service.present() == variants.present()) {
    value.fail("either service or variants");
  } else if (service.present()) {
    stage.service_name = service.string();
    named.emplace_back(service, stage.service_name);
  } else {
    read_stage_variants(variants, pipeline, stage, scenario, named);
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

SimulatedAdapter read_adapter(Reader value) {
  ObjectReader fields = value.object();
  SimulatedAdapter adapter;
  adapter.interval = Duration::seconds(fields["interval_s"].integer(1, 86'400, 10));
  adapter.quantile = fields["quantile"].between(0.01, 0.99, adapter.quantile);
  adapter.margin = fields["margin"].between(0.01, 100, adapter.margin);
  adapter.variants = fields["variants"].choice({"planned", "any"}, 0) == 0;
  plan::read_pipeline_adapter_limits(fields, adapter.limits);
  return adapter;
}

SimulatedPipeline read_pipeline(Reader value, Scenario& scenario, ServiceNames& named) {
  ObjectReader fields = value.object();
  SimulatedPipeline pipeline;
  pipeline.name = fields["name"].name();
  pipeline.slo = read_slo(fields["slo_ms"], pipeline.demand);
  pipeline.demand.items = read_items(fields["items"], 1);
  pipeline.share = read_share(fields["share"], 1.0);
  if (Reader arrival = fields["arrival"]; arrival.present()) {
    pipeline.arrival = read_scenario_arrivals(arrival);
  }
  if (Reader adapter = fields["adapter"]; adapter.present()) {
    pipeline.adapter = read_adapter(adapter);
    if (pipeline.slo.is_infinite() || pipeline.share == 0) {
      adapter.fail("an slo_ms to plan for, and a share above 0");
    }
  }
  std::vector<std::vector<std::pair<Reader, std::string>>> after;
  std::set<std::string> names;
  Reader stages = fields["stages"];
  for (Reader entry : stages.list(1)) {
    pipeline.stages.push_back(read_stage(entry, pipeline, after.emplace_back(), scenario, named));
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

}  // namespace

void read_pipelines(Reader value, Scenario& scenario, ServiceNames& named) {
  for (Reader entry : value.list(1)) {
    scenario.pipelines.push_back(read_pipeline(entry, scenario, named));
  }
}

void check_adapters(Reader value, const Scenario& scenario) {
  const size_t models = scenario.models.size();
  for (const SimulatedPipeline& pipeline : scenario.pipelines) {
    for (const SimulatedStage& stage : pipeline.stages) {
      const bool planned = stage.service < models ||
                           (stage.service - models < scenario.variants.size() &&
                            !has_services(scenario.variants[stage.service - models].variants));
      if (!pipeline.adapter || planned) continue;
      value.fail(
          fmt::format("stages that are models or have variants that are, where an adapter plans; "
                      "not '{}' of '{}'",
                      stage.name, pipeline.name));
      return;
    }
  }
}

}  // namespace fermata::simulate
