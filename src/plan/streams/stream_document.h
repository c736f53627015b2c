#pragma once

#include "base/document.h"
#include "plan/streams/stream_problem.h"

namespace fermata::plan {

// `fermata plan streams`: docs/schemas/streams.schema.json.
StreamProblem read_stream_problem(Reader root);
std::vector<StreamVariant> read_stream_variants(Reader list);
// The document that is planned as `problem` is, to the bit. Latencies are written up to the
// batch size that a client could use.
Json write_stream_problem(const StreamProblem& problem);
Json write_stream_plan(const StreamProblem& problem, const StreamPlan& plan);

}  // namespace fermata::plan
