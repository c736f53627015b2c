#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "base/time.h"
#include "model/latency.h"

namespace fermata {

// Profiles follow the machine (row F6). For each power of two of the batch size,
// the ratio of measured to profiled time whose quantile drives decisions is
// tracked by stochastic approximation (Robbins-Monro on the logarithm, with a
// step bounded so that one stall of the machine moves it by 5 % at most). Sizes
// that never ran take the ratio of the nearest size that did. Pure; O(1) a
// measurement, O(max_batch) a new snapshot.
class LatencyCorrection {
 public:
  // `guessed`: the profile is a guess, which the first measurement replaces.
  LatencyCorrection(std::shared_ptr<const LatencyTable> profile, double quantile, bool guessed);

  void measured(uint32_t items, Duration took);
  // The corrected profile where it moved by more than 5 % since the last one that
  // was given out, with the next version; else null.
  std::shared_ptr<const LatencyTable> publish();
  // Measured over profiled, the mean over all measurements of late; 1 before any.
  double drift() const { return drift_; }

 private:
  static constexpr size_t kBuckets = 24;
  struct Bucket {
    double log_ratio = 0, published = 0;
    bool seen = false;
  };
  double log_ratio(uint32_t items) const;

  std::shared_ptr<const LatencyTable> profile_;
  double quantile_;
  bool guessed_;
  uint64_t version_;
  double drift_ = 1;
  std::array<Bucket, kBuckets> buckets_;
};

}  // namespace fermata
