#pragma once

#include <vector>

#include "plan/pipeline/pipeline_problem.h"

namespace fermata::plan {

// Relative, against the rounding of sums and products of doubles.
constexpr double kPipelineRounding = 1e-9;

// One way to run a stage. The objective of a choice for all stages is
// weight * (product of factors) + (sum of values).
struct StageOption {
  uint32_t variant, batch;
  double replicas;
  double factor, value;
  double cost;
  double ms;  // latency and queueing
};

// A stage in the order of the search, with its options that no other option beats.
struct SearchStage {
  uint32_t stage;               // of the problem
  std::vector<uint32_t> after;  // places of this order, all before this one
  std::vector<StageOption> options;
  double least_ms, least_cost;  // over the options
  double tail_ms;               // the longest path after it at the least times
};

struct SearchSpace {
  double weight;
  double sla_ms, max_cost;  // with room for rounding
  std::vector<SearchStage> stages;
};

// What each variant of a stage adds to the accuracy of the pipeline: its own as a factor (PAS), or
// its scaled rank as a summand (PAS').
std::vector<double> accuracy_scores(PipelineAccuracy accuracy, const PipelineStage& stage);

// All options of a stage, in the order of the document. The fewest replicas that bear the rate
// (equation 10c) serve each variant and batch size; max_replicas is not looked at.
std::vector<StageOption> stage_options(const PipelineProblem& problem, const PipelineStage& stage);

// Options within max_replicas; some stage may have none. An order in which few stages are open at
// once, O(stages^2). Dropping beaten options takes O(options^2) a stage.
SearchSpace search_space(const PipelineProblem& problem);

// The figures of one option a stage, in the order of the problem's stages. `feasible`: SLA
// and max_cost are kept.
PipelinePlan evaluate(const PipelineProblem& problem, const std::vector<StageOption>& chosen);

// Why nothing keeps the limits; `exact` is left alone.
PipelinePlan infeasible(const PipelineProblem& problem);

}  // namespace fermata::plan
