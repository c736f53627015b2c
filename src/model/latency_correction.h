#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/quantile_tracker.h"
#include "base/time.h"
#include "model/latency.h"

namespace fermata {

// Profiles follow the machine. For each power of two of the batch size,
// the ratio of measured to profiled time is tracked at the quantile that drives
// decisions. Sizes that never ran take the ratio of the nearest size that did.
// Pure; O(1) a measurement, O(max_batch) a new snapshot.
class LatencyCorrection {
 public:
  static constexpr Duration kNoEvidence = Duration::seconds(1);

  // `guessed`: the profile is a guess, which the first measurement replaces.
  LatencyCorrection(std::shared_ptr<const LatencyTable> profile, double quantile, bool guessed);

  void measured(uint32_t items, Duration took);
  // Work of this size was refused for its run time, and nothing has run for kNoEvidence
  // that could show the estimate wrong: it moves a step towards the fastest run
  // seen (without one, half the profile; after few, the profile at least: all of them may
  // have been slow), so that one bad moment of the machine does not refuse everything for ever.
  void doubted(uint32_t items);
  // The corrected profile where it moved by more than 5 % since the last one that
  // was given out, or by more than 0.5 % and 64 measurements have come since it was last
  // looked at so closely; with the next version. Else null.
  std::shared_ptr<const LatencyTable> publish();
  // Measured over profiled time, the mean over the last measurements; 1 before any.
  double drift() const { return drift_; }

 private:
  struct Bucket {
    QuantileTracker ratio;
    double published = 1;
    double fastest = 0.5;  // of the ratios; before any run, the furthest that doubt goes
    uint32_t runs = 0;
    bool seen = false;  // has a ratio of its own
  };
  Bucket& start(uint32_t items);
  double ratio(uint32_t items) const;

  std::shared_ptr<const LatencyTable> profile_;
  bool guessed_;
  uint64_t version_;
  double drift_ = 1;
  uint32_t unpublished_ = 0;     // measurements
  std::vector<Bucket> buckets_;  // by the logarithm of the size
};

}  // namespace fermata
