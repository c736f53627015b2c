#include "plan/pipeline/pipeline_adapter.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "model/latency_at.h"
#include "plan/pipeline/pipeline_planner.h"

namespace fermata::plan {
namespace {

bool same_stage(const PipelineStagePlan& a, const PipelineStagePlan& b) {
  return a.variant == b.variant && a.batch == b.batch && a.replicas == b.replicas;
}

// Of replicas that are as many as there may be: those of the stages whose cost most go until
// `max_cost` is enough, one of each stage stays.
void fit_cost(double max_cost, const std::vector<double>& costs,
              std::vector<PipelineStagePlan>& stages) {
  double cost = 0;
  for (size_t s = 0; s < stages.size(); ++s) {
    if (costs[s] > 0) {
      stages[s].replicas = std::min(stages[s].replicas, std::ceil(max_cost / costs[s]));
    }
    cost += costs[s] * stages[s].replicas;
  }
  while (cost > max_cost) {
    size_t most = 0;
    for (size_t s = 1; s < stages.size(); ++s) {
      const bool costs_more = costs[s] * stages[s].replicas > costs[most] * stages[most].replicas;
      if (stages[s].replicas > 1 && (costs_more || stages[most].replicas <= 1)) most = s;
    }
    if (stages[most].replicas <= 1) return;
    --stages[most].replicas;
    cost -= costs[most];
  }
}

}  // namespace

const std::vector<std::string_view>& pipeline_method_names() {
  static const std::vector<std::string_view> kNames = {"ipa", "fa2", "rim"};
  return kNames;
}

std::vector<PipelineDemand> demands_of(const estimate::BurstForecast& forecast) {
  std::vector<PipelineDemand> demands;
  for (size_t i = 0; i < estimate::BurstForecast::kSeconds.size(); ++i) {
    const double wait_ms = 1e3 * static_cast<double>(estimate::BurstForecast::kSeconds[i]);
    demands.push_back({forecast.forecast(i), i == 0 ? 0 : wait_ms});
  }
  return demands;
}

TableLatency latency_at_sizes(const std::vector<uint32_t>& sizes,
                              absl::FunctionRef<std::optional<double>(uint32_t)> ms) {
  TableLatency table;
  for (const uint32_t size : sizes) {
    if (const auto known = ms(size)) table.points_ms[size] = *known;
  }
  if (table.points_ms.empty()) table.points_ms[1] = ms(1).value_or(1);
  return table;
}

PipelineAdapter::PipelineAdapter(PipelineAdapterOptions options) : options_(std::move(options)) {
  PipelineProblem& problem = options_.problem;
  for (size_t s = 0; s < problem.stages.size(); ++s) {
    PipelineStage& stage = problem.stages[s];
    if (options_.method == PipelineMethod::kFa2) {
      stage.variants = {stage.variants.at(options_.variants.at(s))};
    }
    if (options_.method == PipelineMethod::kRim) stage.max_replicas = options_.replicas.at(s);
  }
  if (options_.method == PipelineMethod::kRim) problem.beta = 0;
}

void PipelineAdapter::measured(std::vector<PipelineStage> stages, double sla_ms) {
  const auto alike = [](const PipelineStage& a, const PipelineStage& b) {
    const auto same = [](const auto& v, const auto& w) { return v.name == w.name; };
    return a.name == b.name && std::equal(a.variants.begin(), a.variants.end(), b.variants.begin(),
                                          b.variants.end(), same);
  };
  auto& own = options_.problem.stages;
  if (!std::equal(own.begin(), own.end(), stages.begin(), stages.end(), alike)) current_.clear();
  own = std::move(stages);
  options_.problem.sla_ms = sla_ms;
}

PipelineDecision PipelineAdapter::decision_for(const PipelineDemand& demand) const {
  PipelineDecision decision{demand, options_.problem, {}, false};
  const double rate = std::max(demand.forecast_rps * options_.margin, options_.least_rate_rps);
  decision.problem.rate_rps = rate * options_.shares;
  if (options_.shares != 1) decision.problem.filling_rps = rate;
  decision.problem.sla_ms -= demand.wait_ms;
  decision.answer = plan_pipeline(decision.problem);
  return decision;
}

PipelineDecision PipelineAdapter::decide(std::span<const PipelineDemand> demands) {
  PipelineDecision decision = decision_for(demands.front());
  for (const PipelineDemand& demand : demands.subspan(1)) {
    if (demand.wait_ms >= options_.problem.sla_ms) continue;
    PipelineDecision other = decision_for(demand);
    const bool better =
        !decision.answer.feasible || other.answer.objective > decision.answer.objective;
    if (other.answer.feasible && better) decision = std::move(other);
  }
  std::vector<PipelineStagePlan> next = current_;
  if (decision.answer.feasible) {
    next = translated(decision.answer);
  } else if (current_.empty()) {
    next = fastest();
  }
  decision.applied =
      !std::equal(next.begin(), next.end(), current_.begin(), current_.end(), same_stage);
  current_ = std::move(next);
  return decision;
}

std::vector<PipelineStagePlan> PipelineAdapter::translated(const PipelinePlan& plan) const {
  std::vector<PipelineStagePlan> stages = plan.stages;
  for (size_t s = 0; s < stages.size(); ++s) {
    if (options_.method == PipelineMethod::kFa2) stages[s].variant = options_.variants[s];
    if (options_.method == PipelineMethod::kRim) stages[s].replicas = options_.replicas[s];
  }
  return stages;
}

PipelinePlan PipelineAdapter::to_run(const PipelineDecision& decision) const {
  if (decision.answer.feasible) return decision.answer;
  PipelinePlan most = plan_most(decision.problem);
  if (!most.feasible) most.stages = fastest();
  return most;
}

std::vector<PipelineStagePlan> PipelineAdapter::fastest() const {
  const bool fixed = options_.method == PipelineMethod::kRim;
  std::vector<PipelineStagePlan> stages;
  std::vector<double> costs;
  for (size_t s = 0; s < options_.problem.stages.size(); ++s) {
    costs.push_back(0);
    const PipelineStage& stage = options_.problem.stages[s];
    PipelineStagePlan& plan = stages.emplace_back();
    plan.latency_ms = std::numeric_limits<double>::infinity();
    for (uint32_t v = 0; v < stage.variants.size(); ++v) {
      const double ms = latency_ms(stage.variants[v].latency, 1).value_or(plan.latency_ms);
      if (ms >= plan.latency_ms) continue;
      plan.latency_ms = ms;
      costs.back() = stage.variants[v].cost;
      plan.variant = options_.method == PipelineMethod::kFa2 ? options_.variants[s] : v;
    }
    plan.replicas =
        fixed ? options_.replicas[s] : std::min(options_.problem.max_replicas, kMostFallback);
  }
  if (!fixed) fit_cost(options_.problem.max_cost, costs, stages);
  return stages;
}

}  // namespace fermata::plan
