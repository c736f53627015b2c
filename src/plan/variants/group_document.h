#pragma once

#include "base/document.h"
#include "plan/variants/group_problem.h"

namespace fermata::plan {

// step, linear, sigmoid, none or {"constant": c}; `absent` where nothing is said.
Penalty read_penalty(Reader value, PenaltyShape absent = PenaltyShape::kStep);

// `fermata plan group`: docs/schemas/group.schema.json.
GroupProblem read_group_problem(Reader root);

// The document of a problem, on a clock that starts at the problem's now (`now_ms` 0), so
// that nothing is rounded however long the machine has been up. What is read from it is
// planned as the problem is, to the nanosecond.
Json to_document(const GroupProblem& problem);

// The result, with times on a clock that starts at `origin`: the document's own by
// default, problem.now to go with to_document(problem).
Json write_group_schedule(const GroupProblem& problem, const GroupSchedule& schedule,
                          Time origin = Time());

}  // namespace fermata::plan
