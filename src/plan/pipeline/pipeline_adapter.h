#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "estimate/forecast.h"
#include "plan/pipeline/pipeline_problem.h"

namespace fermata::plan {

// What an adapter may change (IPA, section 5.1): everything; FA2: replicas and batch sizes of one
// variant a stage; RIM: variants and batch sizes on fixed replicas, whatever they cost.
enum class PipelineMethod : uint8_t { kIpa, kFa2, kRim };
const std::vector<std::string_view>& pipeline_method_names();

struct PipelineAdapterOptions {
  PipelineMethod method = PipelineMethod::kIpa;
  PipelineProblem problem;         // its rate is that of each decision
  std::vector<uint32_t> variants;  // of FA2, by stage
  std::vector<uint32_t> replicas;  // of RIM, by stage
  double margin = 1;               // on the forecast
  double least_rate_rps = 1;       // is planned for in any case
  // Stages share workers: a problem's replica is one of so many parts of a worker and its rate so
  // many times that of the requests, at which batches fill all the same. Costs and max_replicas are
  // of such parts.
  double shares = 1;
};

// Bursts of this rate may wait for so long, which the SLA has to leave them.
struct PipelineDemand {
  double forecast_rps = 0;
  double wait_ms = 0;
};

// A variant's latency at the batch sizes that may be planned, of those that it can run; of one item
// where it can run none of them. `ms`: at a size, none where that is too large.
TableLatency latency_at_sizes(const std::vector<uint32_t>& sizes,
                              absl::FunctionRef<std::optional<double>(uint32_t)> ms);

// The highest second, and bursts that an SLA may let wait.
std::vector<PipelineDemand> demands_of(const estimate::BurstForecast& forecast);

struct PipelineDecision {
  PipelineDemand demand;    // of those that could be planned for, the best
  PipelineProblem problem;  // that was solved: `fermata plan pipeline` answers it alike
  PipelinePlan answer;
  bool applied = false;  // there is a plan and it differs from the one before
};

// One decision an interval: solves the problem for the forecast rate. Where nothing keeps the
// limits, the plan before stays; the first decision then takes what is fastest, on as many replicas
// as are allowed (up to kMostFallback) and cost no more than max_cost together.
class PipelineAdapter {
 public:
  static constexpr double kMostFallback = 100;
  static constexpr double kShares = 16;  // of a worker, where stages share them

  // Options of a method fit: as many variants or replicas as stages, and the variants exist.
  explicit PipelineAdapter(PipelineAdapterOptions options);
  PipelineDecision decide(double forecast_rps) {
    const PipelineDemand demand{forecast_rps};
    return decide({&demand, 1});
  }
  // The plan of the highest objective for any of these; where there is none, for the first.
  PipelineDecision decide(std::span<const PipelineDemand> demands);
  // The same stages with what is known of them by now; where they differ otherwise, as after a
  // reload, no plan is left of before.
  void measured(std::vector<PipelineStage> stages, double sla_ms);
  // Of the last decision; in the problem's own variants. Empty before the first.
  const std::vector<PipelineStagePlan>& current() const { return current_; }
  // What runs by a decision where the plan before does not stay: its answer, else what carries most
  // of its rate, else what may run that takes least, on as many replicas as are allowed.
  PipelinePlan to_run(const PipelineDecision& decision) const;

 private:
  std::vector<PipelineStagePlan> fastest() const;
  PipelineDecision decision_for(const PipelineDemand& demand) const;
  std::vector<PipelineStagePlan> translated(const PipelinePlan& plan) const;

  PipelineAdapterOptions options_;
  std::vector<PipelineStagePlan> current_;
};

}  // namespace fermata::plan
