#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "estimate/forecast.h"
#include "plan/pipeline/pipeline_adapter.h"

namespace fermata::simulate {

// A pipeline as IPA runs it: each stage has replicas of one variant and one queue, whose batches go
// to whichever replica comes free; an adapter plans every interval. Virtual time, one run from one
// seed.

// When a request is dropped before a batch takes it: never; past its SLA between stages, and
// anywhere past twice of it (IPA, section 4.5); or as soon as what it has waited, this stage and
// the stages after it, with the waits that they have now, exceed the SLA (PARD).
enum class DropRule : uint8_t { kNever, kPublished, kAhead };

// Who chooses a batch's variant and size: the plan, or the head of the queue's slack among those on
// the Pareto front of a stage (SuperServe's SlackFit, on the replicas of the plan).
enum class BatchRule : uint8_t { kPlanned, kSlackFit };

// The highest load of the next 20 seconds. `second`: how many have passed.
using LoadForecast = absl::AnyInvocable<double(const estimate::LoadWindow&, size_t second)>;

struct DedicatedOptions {
  plan::PipelineAdapterOptions adapter;
  std::vector<double> loads;  // requests in each second, from the start on
  uint64_t seed = 1;
  double interval_s = 10;  // whole seconds
  double apply_s = 8;      // from a decision until new replicas serve
  DropRule drop = DropRule::kPublished;
  BatchRule batch = BatchRule::kPlanned;
  size_t series_s = 10;  // one row of the series
};

struct DedicatedRow {
  double load_rps = 0, forecast_rps = 0, accuracy = 0, cost = 0;
  uint64_t offered = 0, on_time = 0, late = 0, dropped = 0;  // of the requests that arrive in it
};

struct DedicatedResult {
  DedicatedRow total;  // the mean load and forecast; the time average of the cost
  std::vector<DedicatedRow> series;
  std::vector<double> latencies_ms;  // of the answered requests, ascending
  std::vector<double> stage_cost;    // time averages
  uint64_t decisions = 0, applied = 0, infeasible = 0, batches = 0;
  double smape_percent = 0;  // of the forecasts
};

// The first plan is for the highest load of the first interval, and serves at once. Every
// request is followed to its end. O(requests * stages) with log factors, and a plan an interval.
DedicatedResult run_dedicated(DedicatedOptions options, LoadForecast forecast);

}  // namespace fermata::simulate
