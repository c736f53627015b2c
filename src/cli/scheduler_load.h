#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/histogram.h"
#include "base/time.h"
#include "model/latency.h"

namespace fermata::cli {

// The scheduler alone under load (Symphony, figure 11): requests and workers
// are objects of this process, nothing is sent and nothing computed. Each model
// thread makes its own Poisson arrivals and ends its own batches.
struct SchedulerLoad {
  std::string policy = "fermata";
  uint32_t models = 1;
  uint32_t workers = 0;  // 0: one for each kRatePerWorker requests/s
  uint32_t threads = 1;  // 1: load, models and rank on one; else a rank thread besides
  double rate_rps = 1e6;
  Duration duration = Duration::seconds(2);
  Duration slo = Duration::millis(25);
  LatencyModel latency = LinearLatency{1.053, 5.072};  // ResNet50, table 5
  uint64_t seed = 1;
  // Not zero: no clock; each turn is this much later than the one before, and
  // all shards take turns on one thread. The same work on every run, to count
  // instructions by.
  Duration virtual_turn;

  static constexpr double kRatePerWorker = 500;
  uint32_t workers_used() const;
};

struct SchedulerLoadResult {
  uint64_t offered = 0, on_time = 0, late = 0, dropped = 0, waiting = 0, batches = 0, turns = 0;
  Duration wall, cpu;                    // cpu: of all threads, turns without work included
  std::optional<uint64_t> instructions;  // where the processor counts them
  // From the scheduled arrival to the end of the turn that took the request in.
  Histogram lag;

  double handled_rps() const { return static_cast<double>(offered) / wall.seconds(); }
  double bad_rate() const;
  double mean_batch() const;
  void merge(const SchedulerLoadResult& other);
};

// Blocks for load.duration, busy on every thread. Unknown policy, or fewer
// models than threads: INVALID_ARGUMENT.
absl::StatusOr<SchedulerLoadResult> run_scheduler_load(const SchedulerLoad& load);

// Sustained: all of the load was taken in, at a median lag below 50 us, and at
// most 1 % of it ended badly.
bool sustained(const SchedulerLoad& load, const SchedulerLoadResult& result);

// The highest rate that is sustained, within 3 %; `tried` hears of each run.
struct SustainedRate {
  double rate_rps = 0;
  SchedulerLoadResult result;
};
absl::StatusOr<SustainedRate> find_sustained_rate(
    SchedulerLoad load, const std::function<void(const SchedulerLoad&)>& tried);

}  // namespace fermata::cli
