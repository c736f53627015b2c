#pragma once

#include <optional>
#include <vector>

#include "base/document.h"
#include "plan/pipeline/pipeline_problem.h"

namespace fermata::plan {

// `fermata plan pipeline`: docs/schemas/pipeline.schema.json. Stages of which none says `after` are
// a chain in the document's order.
PipelineProblem read_pipeline(Reader root);
// The same as a part of another document, where the rate may be left out.
PipelineProblem read_pipeline_at(Reader root, std::optional<double> rate_rps);

// The document that reads as `problem`, to the bit.
Json write_pipeline_problem(const PipelineProblem& problem);
Json write_pipeline_plan(const PipelineProblem& problem, const PipelinePlan& plan);

// Parts of such documents: batch sizes (the powers of two to 64 where they are missing), and a
// latency that is above 0 for each of these sizes that it knows.
std::vector<uint32_t> read_pipeline_batch_sizes(Reader value);
LatencyModel read_pipeline_latency(Reader value, const std::vector<uint32_t>& batch_sizes);

// Weights and batch sizes that an adapter plans with, where they are missing its defaults.
void read_pipeline_adapter_limits(ObjectReader& fields, PipelineProblem& limits);

// Where a user gives none: 5 times the mean latency of the stage's variants for a batch of one,
// added up along the longest path (section 4.2).
double derived_sla_ms(const PipelineProblem& problem);

}  // namespace fermata::plan
