#pragma once

#include "plan/pipeline/pipeline_problem.h"

namespace fermata::plan {

// The optimum of equation 10, proven: stages are decided one after the other; of partial choices
// with the same open stages those that another one beats in everything are dropped, and those
// whose Lagrangian bound is not above the best plan. Each level keeps the most promising ones
// only; what was cut bounds the rest, and passes with more room follow until that bound is
// reached. Then, or after about max_steps comparisons, it ends; without proof `gap` says how much
// better a plan could be. Equal objectives: any one, always the same. Objectives that differ by
// less than 1e-11, relative, count as equal.
//
// Pure and deterministic. Needs at least one stage, variant and batch size, no cycles, and finite
// positive times (the document reader sees to it).
PipelinePlan plan_pipeline(const PipelineProblem& problem);

// Where nothing keeps the limits at the problem's rate: the plan for the highest rate at which
// something does. Not feasible where there is none. At a lower rate batches fill more slowly, so
// that rates which cannot be kept may lie below some that can. Mostly a dozen such problems; after
// kMostRounds dozens it takes the first that is found where the rate falls by an eighth each time.
// All of them share max_steps, and each may take half of those that are left: half of all are kept
// for the problems an eighth apart, so that what is hard is answered too, if not by the best.
constexpr int kMostRounds = 20;
PipelinePlan plan_most(PipelineProblem problem);

}  // namespace fermata::plan
