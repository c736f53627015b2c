#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "estimate/subset.h"

namespace fermata::plan {

// One decision of difficulty-aware ensembles (Schemble, section VI): which base models
// answer each query that waits, and in which order. All times count from the decision.

using estimate::Subset;  // of an ensemble's base models

// A base model. Its worker runs one task at a time, in the order of the plan, and of one query in
// the order of the models.
struct BaseModel {
  std::string name;
  Duration latency;         // of one task, not negative
  Duration busy;            // what is left of the task that its worker runs now, not negative
  std::string worker = {};  // models of one name share it; empty: a worker of its own
};

struct EnsembleQuery {
  std::string id;
  Duration deadline = Duration::infinite();  // infinite: whenever it ends is on time
  Duration arrival;                          // usually not positive; kGreedyFifo, kOriginal
  double difficulty = 0;                     // kGreedySjf
  // What it is worth to be answered by each subset on time, in [0, 1]; 2^models entries,
  // the first (nobody answers) is 0. More models need not be worth more.
  std::vector<double> utility;
};

struct EnsembleProblem {
  static constexpr size_t kMostModels = estimate::kMostBaseModels, kMostQueries = 4096;
  static constexpr uint64_t kDefaultSteps = 100'000'000;  // about a second

  // The first model that has the worker of this one.
  size_t worker_of(size_t model) const {
    size_t first = 0;
    const std::string& worker = models[model].worker;
    while (first < model && (worker.empty() || models[first].worker != worker)) ++first;
    return first;
  }

  std::vector<BaseModel> models;
  std::vector<EnsembleQuery> queries;
  double delta = 0.01;  // kDp may be worth so much less than the best plan for each query; > 0
  uint64_t max_steps = kDefaultSteps;  // of kDp, which then keeps its best
};

// The contract's policies; ensemble_policy_names() has their names in this order.
enum class EnsemblePolicy : uint8_t {
  kDp,          // the most utility
  kGreedyEdf,   // each query in order of deadlines takes the best subset that is on time
  kGreedyFifo,  // the same in order of arrival
  kGreedySjf,   // the same, the easiest query first
  kOriginal     // all models for each query in order of arrival, unless it would be late
};
std::span<const std::string_view> ensemble_policy_names();

// A problem and how it is to be solved.
struct EnsembleTask {
  EnsembleProblem problem;
  EnsemblePolicy policy = EnsemblePolicy::kDp;
};

struct EnsemblePlan {
  struct Served {
    uint32_t query;   // of EnsembleProblem::queries
    Subset subset;    // never empty
    Duration finish;  // of its last task, at its deadline or before
  };
  double utility = 0;              // sum over `plan`
  double gap = 0;                  // of kDp: no plan is worth more by above this; 0: it is the best
  std::vector<Served> plan;        // in the order in which every model runs its tasks
  std::vector<uint32_t> unserved;  // in the problem's order
};

}  // namespace fermata::plan
