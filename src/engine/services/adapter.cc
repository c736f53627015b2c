#include "engine/services/adapter.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/clock.h"
#include "base/status.h"
#include "plan/pipeline/pipeline_document.h"

namespace fermata::engine {
namespace {

plan::PipelineAdapterOptions planner_options(const AdapterOptions& options, double shares,
                                             double cores) {
  plan::PipelineAdapterOptions made{
      .problem = options.limits, .margin = options.margin, .shares = shares};
  made.problem.max_replicas *= shares;
  if (!options.dedicated) made.problem.max_cost = std::min(made.problem.max_cost, cores);
  return made;
}

LatencyModel table_of(const LatencyTable& latency, const std::vector<uint32_t>& sizes,
                      double ratio) {
  return plan::latency_at_sizes(sizes, [&](uint32_t size) {
    return size <= latency.max_batch() ? std::optional(latency(size).millis() * ratio)
                                       : std::nullopt;
  });
}

}  // namespace

absl::StatusOr<std::unique_ptr<Adapter>> Adapter::make(const ServiceOptions& options,
                                                       const WorkerOptions& workers) {
  std::unique_ptr<ForecastModel> network;
  const AdapterOptions& own = *options.pipeline->adapter;
  if (own.forecast == Forecast::kModel) {
    auto loaded = ForecastModel::load(own.model);
    if (!loaded.ok()) {
      return invalid("service '{}': adapter.model: {}", options.name, message(loaded.status()));
    }
    network = *std::move(loaded);
  }
  return std::unique_ptr<Adapter>(new Adapter(options, workers, std::move(network)));
}

Adapter::Adapter(const ServiceOptions& options, const WorkerOptions& workers,
                 std::unique_ptr<ForecastModel> forecast)
    : service_(options.name),
      slo_(options.slo),
      options_(*options.pipeline->adapter),
      threads_(workers.types.front().threads),
      shares_(options_.dedicated ? 1 : plan::PipelineAdapter::kShares),
      network_(std::move(forecast)),
      square_root_(options_.quantile),
      planner_(
          planner_options(options_, shares_, static_cast<double>(workers.count()) * threads_)) {}

bool Adapter::second(double requests) {
  loads_.add(requests);
  square_root_.second(requests);
  return ++seconds_ % static_cast<uint64_t>(options_.interval.seconds()) == 0;
}

// The highest second, or of a forecast that knows them bursts that the SLA may let wait.
std::vector<plan::PipelineDemand> Adapter::demands() const {
  switch (options_.forecast) {
    case Forecast::kReactive:
      return {{estimate::reactive_forecast(loads_.loads())}};
    case Forecast::kMovingMaximum:
      return {{estimate::moving_maximum(loads_.loads())}};
    case Forecast::kSquareRoot:
      return plan::demands_of(square_root_);
    case Forecast::kModel:
      break;
  }
  const auto answer = network_->forecast(loads_.loads());
  if (answer.ok()) return {{*answer}};
  spdlog::warn("service '{}': {}", service_, message(answer.status()));
  return {{estimate::moving_maximum(loads_.loads())}};
}

MeasuredRuns::Sums Adapter::look_at(const std::string& route, VariantId variant,
                                    const LatencyTable& believed, const StageMeasures& measures) {
  MeasuredRuns& runs = runs_[route];
  const auto row = measures.rows->find(route);
  if (row != measures.rows->end()) runs.look(variant, believed, row->second.batches);
  return runs.sums();
}

// One that has not run is believed to differ from its profile as the others of its stage do, which
// get the same data on the same machine.
std::vector<plan::PipelineVariant> Adapter::variants_of(const Pipeline::Stage& stage,
                                                        const StageMeasures& measures) {
  MeasuredRuns::Sums all;
  for (const Pipeline::Option& option : stage.options) {
    const auto sums = look_at(option.route, option.variant->id, *option.latency, measures);
    all.ran_ms += sums.ran_ms;
    all.believed_ms += sums.believed_ms;
  }
  const double others = all.believed_ms > 0 ? all.ran_ms / all.believed_ms : 1;
  std::vector<plan::PipelineVariant> variants;
  for (const Pipeline::Option& option : stage.options) {
    const double ratio = runs_[option.route].ratio().value_or(others);
    variants.push_back({.name = option.name,
                        .accuracy = option.accuracy,
                        .cost = (option.threads > 0 ? option.threads : threads_) / shares_,
                        .latency = table_of(*option.latency, options_.limits.batch_sizes, ratio)});
  }
  return variants;
}

// What has no variants counts for the time that it takes; models besides for their workers.
std::vector<plan::PipelineStage> Adapter::stages(const Pipeline& pipeline,
                                                 const StageMeasures& measures) {
  struct Answered {
    double requests = 0, items = 0;
  };
  const auto add = [&](const std::string& service, Answered& to) {
    const auto row = measures.rows->find(service);
    if (row == measures.rows->end()) return;
    to.requests += static_cast<double>(row->second.success.count);
    to.items += static_cast<double>(row->second.inference_count);
  };
  Answered whole;
  add(service_, whole);
  std::vector<plan::PipelineStage> stages;
  for (size_t s = 0; s < pipeline.stages.size(); ++s) {
    const Pipeline::Stage& known = pipeline.stages[s];
    plan::PipelineStage& stage = stages.emplace_back();
    stage.name = known.name;
    stage.after = known.after;
    Answered own;
    add(known.route, own);
    for (const Pipeline::Option& option : known.options) add(option.route, own);
    // Requests that later stages reject have run here too: they must not look like more items of
    // those that were answered.
    if (own.requests > 0 && whole.requests > 0 && known.op == nullptr) {
      const double asked = std::min(1.0, own.requests / whole.requests);
      stage.items = std::max(own.items / own.requests * asked, 1e-3);
    }
    stage.variants = variants_of(known, measures);
    if (!stage.variants.empty()) continue;
    const bool costs = known.op == nullptr && known.pipeline == nullptr;
    const double ms = std::max(measures.runs[s].millis(), 1e-6);
    LatencyModel latency = TableLatency{{{options_.limits.batch_sizes.front(), ms}}};
    if (costs) {
      look_at(known.route, known.member->id, *known.latency, measures);
      const double ratio = runs_[known.route].ratio().value_or(1);
      latency = table_of(*known.latency, options_.limits.batch_sizes, ratio);
    }
    stage.variants = {{.name = known.name,
                       .accuracy = 1,
                       .cost = costs ? threads_ / shares_ : 0,
                       .latency = std::move(latency)}};
  }
  return stages;
}

const AdapterDecision& Adapter::decide(const Pipeline& pipeline, const StageMeasures& measures) {
  const Time start = monotonic_now();
  plan::PipelineProblem problem = options_.limits;
  problem.stages = stages(pipeline, measures);
  const std::optional<Duration> sla = options_.sla ? options_.sla : slo_;
  const double sla_ms = sla ? sla->millis() : plan::derived_sla_ms(problem);
  planner_.measured(std::move(problem.stages), sla_ms);
  AdapterDecision decision{
      .service = service_, .number = ++decisions_, .at = start, .cores = options_.cores};
  decision.decision = planner_.decide(demands());
  decision.took = monotonic_now() - start;
  decision.forecast_rps = decision.decision.demand.forecast_rps;
  infeasible_ += decision.decision.answer.feasible ? 0 : 1;
  runs_now_ = planner_.to_run(decision.decision);
  last_.insert(last_.begin(), std::move(decision));
  if (last_.size() > kKept) last_.pop_back();
  return last_.front();
}

bool Adapter::runs(const std::string& model) const {
  return std::any_of(options_.variants.begin(), options_.variants.end(),
                     [&](const auto& variant) { return variant.model == model; });
}

std::map<std::string, std::string> Adapter::variants() const {
  std::map<std::string, std::string> variants;
  for (const PipelineStatistics::Stage& stage : statistics().stages) {
    variants[stage.name] = stage.variant;
  }
  return variants;
}

PipelineStatistics Adapter::statistics() const {
  PipelineStatistics row{.service = service_, .decisions = decisions_, .infeasible = infeasible_};
  if (last_.empty()) return row;
  const AdapterDecision& newest = last_.front();
  row.forecast_rps = newest.forecast_rps;
  row.cost = runs_now_.cost;
  row.accuracy = runs_now_.accuracy;
  for (size_t s = 0; s < runs_now_.stages.size(); ++s) {
    const plan::PipelineStage& stage = newest.decision.problem.stages[s];
    const plan::PipelineStagePlan& plan = runs_now_.stages[s];
    row.stages.push_back(
        {stage.name, stage.variants[plan.variant].name, plan.batch, plan.replicas / shares_});
  }
  return row;
}

}  // namespace fermata::engine
