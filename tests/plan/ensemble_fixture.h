#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "plan/ensemble/ensemble_planner.h"

namespace fermata::plan {

inline Duration ms(double millis) { return Duration::from_millis(millis); }

// A query with these utilities by subset, 0 of nobody and of what is left out.
inline EnsembleQuery query(std::string id, double deadline_ms, std::vector<double> utility,
                           size_t models) {
  utility.resize(size_t{1} << models);
  return {.id = std::move(id), .deadline = ms(deadline_ms), .utility = std::move(utility)};
}

// Ties on purpose: times of few milliseconds, utilities of few values. Now and then without a
// deadline, without time to run, with utilities that fall with more models.
EnsembleProblem random_ensemble_problem(Random& random, size_t queries, size_t models);

// Models share up to two workers.
void share_workers(Random& random, EnsembleProblem& problem);

// Every query once, every task where the plan's order puts it, nobody late, the sum right.
void check_ensemble_plan(const EnsembleProblem& problem, const EnsemblePlan& plan);

}  // namespace fermata::plan
