#pragma once

#include <cstddef>
#include <vector>

#include "base/time.h"

namespace fermata::estimate {

// A quantile of the last 400 durations, each with a weight: the least value that values of at
// most it hold that share of the weight. Computed anew at every 16th, and at each of the first 16.
class WeightedQuantile {
 public:
  explicit WeightedQuantile(double quantile) : quantile_(quantile) {}

  void add(Duration value, double weight);  // weight >= 0. O(1) amortised, with a constant of 25
  Duration value() const { return value_; }

 private:
  struct Sample {
    Duration value;
    double weight;
  };
  static constexpr size_t kRemembered = 400, kEvery = 16;

  void compute();

  double quantile_;
  std::vector<Sample> recent_;  // a ring once it is full
  std::vector<Sample> sorted_;  // scratch
  size_t added_ = 0;
  Duration value_;
};

}  // namespace fermata::estimate
