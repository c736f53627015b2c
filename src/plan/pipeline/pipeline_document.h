#pragma once

#include "base/document.h"
#include "plan/pipeline/pipeline_problem.h"

namespace fermata::plan {

// `fermata plan pipeline`: docs/schemas/pipeline.schema.json. Stages of which none says `after` are
// a chain in the document's order.
PipelineProblem read_pipeline(Reader root);

// The document that reads as `problem`, to the bit.
Json write_pipeline_problem(const PipelineProblem& problem);
Json write_pipeline_plan(const PipelineProblem& problem, const PipelinePlan& plan);

// Where a user gives none: 5 times the mean latency of the stage's variants for a batch of one,
// added up along the longest path (section 4.2).
double derived_sla_ms(const PipelineProblem& problem);

}  // namespace fermata::plan
