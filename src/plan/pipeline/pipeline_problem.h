#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "model/latency.h"

namespace fermata::plan {

// Variant, batch size and replicas of each stage of a pipeline (IPA, section 4.3): maximise
// equation 9 under equations 10b to 10e, on a chain or on every path of a DAG.

struct PipelineVariant {
  std::string name;
  double accuracy = 0;  // 0 to 1
  double cost = 1;      // of one replica (cores)
  LatencyModel latency;
};

struct PipelineStage {
  std::string name;
  double items = 1;  // of this stage for one request of the pipeline, on average; above 0
  std::vector<PipelineVariant> variants;
  std::vector<uint32_t> after;  // stages of the problem; none: it starts with the request
  double max_replicas = std::numeric_limits<double>::infinity();
};

// The product of the stages' accuracies (equation 8), or the sum of their ranks, each
// spread evenly over [0, 1] (equation 11): equal accuracies rank alike, a lone rank counts 1.
enum class PipelineAccuracy : uint8_t { kPas, kPasPrime };

struct PipelineProblem {
  static constexpr uint64_t kDefaultSteps = 2'000'000;  // about a tenth of a second
  static constexpr double kMostReplicas = 1e9;          // of a stage: counts that any code can hold

  double rate_rps = 0;  // above 0
  // Batches fill as they would at this rate; 0: at rate_rps. A bound on what any lower rate allows.
  double filling_rps = 0;
  double sla_ms = 0;  // for every path
  double alpha = 0, beta = 0, delta = 0;
  PipelineAccuracy accuracy = PipelineAccuracy::kPas;
  std::vector<uint32_t> batch_sizes = {1, 2, 4, 8, 16, 32, 64};
  double max_replicas = kMostReplicas;                        // of each stage
  double max_cost = std::numeric_limits<double>::infinity();  // of all
  uint64_t max_steps = kDefaultSteps;
  std::vector<PipelineStage> stages;  // without cycles
};

enum class PipelineLimit : uint8_t { kNone, kBatchSizes, kSla, kReplicas, kCost, kSteps };

struct PipelineStagePlan {
  uint32_t variant = 0;
  uint32_t batch = 1;
  double replicas = 1;  // whole
  double latency_ms = 0, queueing_ms = 0;
};

struct PipelinePlan {
  bool feasible = false;
  bool exact = false;                            // the optimum, or infeasibility, is proven
  double gap = 0;                                // where it is not: how far from it at most
  PipelineLimit binding = PipelineLimit::kNone;  // where it is not feasible
  std::string reason;                            // and one sentence why
  uint64_t steps = 0;                            // that the search took, of max_steps
  double objective = 0;                          // equation 9
  double accuracy = 0;                           // the PAS or PAS' that was asked for
  double cost = 0;
  double latency_ms = 0;  // of the longest path, queueing included
  std::vector<PipelineStagePlan> stages;
};

}  // namespace fermata::plan
