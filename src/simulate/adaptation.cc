#include "simulate/adaptation.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "model/latency_at.h"
#include "policy/tree/node.h"

namespace fermata::simulate {
namespace {

constexpr uint64_t kWindowSeconds = 10;
constexpr double kShares = plan::PipelineAdapter::kShares;

double mean_of(const std::vector<Demand::Items>& from) {
  double sum = 0, shares = 0;
  for (const Demand::Items& each : from) {
    sum += each.share * each.items;
    shares += each.share;
  }
  return shares > 0 ? sum / shares : 1;
}

// Of one request, on average.
std::vector<double> items_by_stage(const SimulatedPipeline& pipeline) {
  std::vector<double> items, made;
  for (const SimulatedStage& stage : pipeline.stages) {
    double own = stage.after.empty() ? mean_of(pipeline.demand.items) : 0;
    for (const uint32_t before : stage.after) own = std::max(own, made[before]);
    items.push_back(std::max(own * stage.when, 1e-3));
    made.push_back(items.back() * mean_of(stage.makes));
  }
  return items;
}

plan::PipelineVariant variant_of(const std::string& name, double accuracy,
                                 const LatencyModel& latency, uint32_t max_batch,
                                 const std::vector<uint32_t>& sizes) {
  return {.name = name,
          .accuracy = accuracy,
          .cost = 1 / kShares,
          .latency = plan::latency_at_sizes(sizes, [&](uint32_t size) {
            return size <= max_batch ? latency_ms(latency, size) : std::nullopt;
          })};
}

}  // namespace

plan::PipelineAdapterOptions Adaptation::options_of(const Scenario& scenario,
                                                    const SimulatedPipeline& pipeline) {
  plan::PipelineAdapterOptions options{
      .problem = pipeline.adapter->limits, .margin = pipeline.adapter->margin, .shares = kShares};
  plan::PipelineProblem& problem = options.problem;
  problem.sla_ms = pipeline.slo.millis();
  problem.max_cost = scenario.worker_count();
  const std::vector<double> items = items_by_stage(pipeline);
  for (size_t s = 0; s < pipeline.stages.size(); ++s) {
    const SimulatedStage& known = pipeline.stages[s];
    plan::PipelineStage& stage = problem.stages.emplace_back();
    stage.name = known.name;
    stage.items = items[s];
    stage.after = known.after;
    if (known.service < scenario.models.size()) {
      const SimulatedModel& model = scenario.models[known.service];
      stage.variants = {
          variant_of(model.name, 1, model.latency.front(), model.max_batch, problem.batch_sizes)};
      continue;
    }
    for (const SimulatedVariant& v :
         scenario.variants[known.service - scenario.models.size()].variants) {
      stage.variants.push_back(
          variant_of(v.name, v.accuracy, v.latency.front(), v.max_batch, problem.batch_sizes));
    }
  }
  return options;
}

Adaptation::Adaptation(const Scenario& scenario) : workers_(scenario.worker_count()) {
  if (const WorkerGroup& first = scenario.workers.front(); first.least) {
    size_.emplace(*first.least, first.count);
    apply_ = first.apply;
    workers_ = size_->size();
  }
  bool adapts = size_.has_value();
  for (const SimulatedPipeline& pipeline : scenario.pipelines) {
    Planned& planned = pipelines_.emplace_back();
    if (!pipeline.adapter) continue;
    adapts = true;
    planned.adapter = &*pipeline.adapter;
    planned.forecast = estimate::BurstForecast(pipeline.adapter->quantile);
    planned.planner.emplace(options_of(scenario, pipeline));
  }
  if (!adapts) return;
  second_ = Time() + Duration::seconds(1);
  decided_.push_back({Time(), workers_, std::vector<std::vector<uint32_t>>(pipelines_.size())});
}

Time Adaptation::next() const {
  return decided_.empty() ? second_ : std::min(second_, decided_.front().at);
}

std::optional<Adaptation::Change> Adaptation::step(Time now, const Counts& counts) {
  if (!decided_.empty() && decided_.front().at <= now) {
    const Change change = std::move(decided_.front());
    decided_.pop_front();
    return change;
  }
  second_ = now + Duration::seconds(1);
  ++seconds_;
  const uint32_t before = workers_;
  bool changed = false;
  for (Planned& pipeline : pipelines_) {
    if (pipeline.adapter == nullptr) continue;
    pipeline.forecast.second(static_cast<double>(std::exchange(pipeline.asked, 0)));
    if (seconds_ % static_cast<uint64_t>(pipeline.adapter->interval.seconds()) != 0) continue;
    decide(pipeline);
    changed = true;
  }
  if (size_ && seconds_ % kWindowSeconds == 0) resize(counts);
  if (!changed && workers_ == before) return std::nullopt;
  Change& change = decided_.emplace_back(Change{now + apply_, workers_, {}});
  for (const Planned& pipeline : pipelines_) change.variants.push_back(pipeline.variants);
  return std::nullopt;
}

// A burst may wait, where the SLA leaves it the time.
void Adaptation::decide(Planned& pipeline) {
  const plan::PipelineDecision decision =
      pipeline.planner->decide(plan::demands_of(pipeline.forecast));
  const plan::PipelinePlan plan = pipeline.planner->to_run(decision);
  pipeline.cost = plan.cost;
  pipeline.variants.clear();
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const auto& stage = decision.problem.stages[s];
    const bool open = !pipeline.adapter->variants || stage.variants.size() == 1;
    pipeline.variants.push_back(open ? policy::kAnyOption : plan.stages[s].variant);
  }
}

void Adaptation::resize(const Counts& counts) {
  const double bad = static_cast<double>(counts.bad - window_.bad);
  const double ended = bad + static_cast<double>(counts.on_time - window_.on_time);
  const double infeasible = static_cast<double>(counts.infeasible - window_.infeasible);
  const double busy =
      (counts.busy - window_.busy).seconds() / (static_cast<double>(kWindowSeconds) * workers_);
  window_ = counts;
  const plan::PoolUse use = {workers_, ended == 0 ? 0 : bad / ended, std::clamp(1 - busy, 0.0, 1.0),
                             infeasible == 0 ? 0 : infeasible / (infeasible + ended)};
  double planned = 0;
  for (const Planned& pipeline : pipelines_) planned += pipeline.cost;
  workers_ = size_->next({.to_add = plan::workers_to_add(use),
                          .planned = static_cast<uint32_t>(std::ceil(planned - 1e-9)),
                          .load = plan::load_of(use)});
}

}  // namespace fermata::simulate
