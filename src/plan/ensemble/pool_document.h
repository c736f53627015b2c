#pragma once

#include <variant>

#include "base/document.h"
#include "plan/ensemble/ensemble_problem.h"
#include "plan/ensemble/pool_problem.h"

namespace fermata::plan {

// `fermata plan ensemble` of the policy `fermata`: docs/schemas/ensemble_pool.schema.json. `fields`
// are the root's but for its policy. All times count from the decision.
PoolProblem read_pool_problem(Reader root, ObjectReader& fields);

// What is read from it is planned as the problem is, to the nanosecond and to the last bit.
Json to_document(const PoolProblem& problem);

Json write_pool_plan(const PoolProblem& problem, const PoolPlan& plan);

}  // namespace fermata::plan
