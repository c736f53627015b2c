#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/document.h"
#include "base/histogram.h"
#include "simulate/scenario.h"

namespace fermata::simulate {

// How a variants service's measured requests were answered.
struct VariantsResult {
  double utility = 0;  // sum of 1 - penalty over the right answers
  double correct = 0;  // whole where the scenario says who is right
  uint64_t answered = 0, short_circuited = 0;
  std::map<std::string, uint64_t> variants;  // requests that each answered
};

// How an ensemble's measured queries were answered.
struct EnsembleResult {
  uint64_t answered = 0, correct = 0;       // in time
  uint64_t incomplete = 0;                  // in time, by fewer models than was planned
  std::map<std::string, uint64_t> subsets;  // answered by each
};

// What became of the measured requests of one model, variants service or ensemble.
struct ModelResult {
  std::string name;
  uint64_t offered = 0, on_time = 0, late = 0, dropped = 0;
  uint64_t infeasible = 0;        // of what was dropped, that no worker could have saved
  uint64_t items = 0;             // of what was offered
  Histogram latency;              // arrival to end, of what was served
  Histogram queueing;             // arrival to the start of its batch
  std::vector<uint64_t> batches;  // [b]: batches of b items that hold a measured request
  std::optional<VariantsResult> variants;
  std::optional<EnsembleResult> ensemble;
  // Of a pipeline the stages, of what else is made of services the members: what became of their
  // requests.
  std::vector<ModelResult> stages;
  double accuracy = 0;  // of a pipeline: sum over the answered of how probably right

  // Of nothing offered, nothing is bad.
  double bad_rate() const {
    return offered == 0 ? 0 : 1 - static_cast<double>(on_time) / static_cast<double>(offered);
  }
  double infeasible_rate() const {
    return offered == 0 ? 0 : static_cast<double>(infeasible) / static_cast<double>(offered);
  }
  // Of those that a free worker could have saved.
  double lacking_rate() const {
    const auto rest = static_cast<double>(offered - infeasible);
    return rest <= 0 ? 0 : 1 - static_cast<double>(on_time) / rest;
  }
};

struct Result {
  std::vector<ModelResult>
      models;  // the scenario's, then its variants services, ensembles and pipelines
  Duration duration;
  uint32_t workers = 0;
  Duration busy;         // of all workers, within the measured time
  Duration worker_time;  // that they served in it
  uint64_t events = 0;
  uint64_t hash = 0;  // over every decision of the run, in order

  double utilization() const { return busy.seconds() / worker_time.seconds(); }
  double mean_workers() const { return worker_time.seconds() / duration.seconds(); }
  double worst_bad_rate() const;
};

// The contract's output, and what plan/autoscale.h makes of it.
Json write_result(const Result& result);

}  // namespace fermata::simulate
