#pragma once

#include "absl/status/statusor.h"
#include "base/time.h"
#include "engine/catalog.h"
#include "engine/execute/executor.h"
#include "engine/trial/profiler.h"
#include "model/profile.h"

namespace fermata::engine {

// That may take about this long, or two runs of an item.
inline constexpr Duration kMostMeasured = Duration::millis(400);

// Loads a variant and measures it for a moment: enough for deadlines to mean something, short
// enough for a start.
class FirstRuns {
 public:
  explicit FirstRuns(double memory_mb);  // before it is loaded, as Executor has it
  void loaded(double memory_mb);         // just now
  Duration loading() const { return loading_; }
  // `made`: as MeasureOptions has it. Blocks. FAILED_PRECONDITION where it does not run on zeros.
  absl::StatusOr<Profile> measure(Executor& executor, const Variant& variant, MadeRuns made = {});

 private:
  Time start_;
  Duration loading_;
  double memory_before_ = 0, memory_loaded_ = 0;
};

// All of it. Errors as executor.load() and FirstRuns::measure() have them.
absl::StatusOr<Profile> make_first_runs(ExecutorFactory& executors, const Variant& variant);

}  // namespace fermata::engine
