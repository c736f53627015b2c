#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "base/time.h"

namespace fermata {

// A log-linear histogram of durations: exact below 256 ns, then 128 buckets for
// each power of two, so a quantile is within 0.4 % of a recorded value. Grows
// with the largest value seen (4.6 k buckets at one hour). Not synchronised:
// one per thread, merged by the reader.
class Histogram {
 public:
  // Negative counts as zero. O(1), allocates only when a new maximum needs it.
  void record(Duration d, uint64_t times = 1) {
    const uint64_t value = static_cast<uint64_t>(std::max<int64_t>(d.nanos(), 0));
    const size_t i = bucket(value);
    if (i >= counts_.size()) counts_.resize(i + 1);
    counts_[i] += times;
    count_ += times;
    sum_ += static_cast<double>(value) * static_cast<double>(times);
    max_ = std::max(max_, Duration::nanos(static_cast<int64_t>(value)));
  }

  void merge(const Histogram& other) {
    if (counts_.size() < other.counts_.size()) counts_.resize(other.counts_.size());
    for (size_t i = 0; i < other.counts_.size(); ++i) counts_[i] += other.counts_[i];
    count_ += other.count_;
    sum_ += other.sum_;
    max_ = std::max(max_, other.max_);
  }

  uint64_t count() const { return count_; }
  Duration max() const { return max_; }
  Duration mean() const {
    return count_ == 0 ? Duration() : Duration::nanos(static_cast<int64_t>(sum_ / count_));
  }

  // The value that at least the share q of the recorded ones do not exceed (the
  // middle of its bucket); zero when nothing was recorded. 0 <= q <= 1.
  Duration quantile(double q) const {
    const double wanted = std::max(1.0, q * static_cast<double>(count_));
    uint64_t seen = 0;
    for (size_t i = 0; i < counts_.size(); ++i) {
      seen += counts_[i];
      if (static_cast<double>(seen) >= wanted) return std::min(middle(i), max_);
    }
    return max_;
  }

 private:
  static constexpr int kBits = 7;

  // Values below 2^kBits are their own bucket; above, `shift` low bits are lost.
  static size_t bucket(uint64_t value) {
    const int shift = std::max(0, static_cast<int>(std::bit_width(value)) - (kBits + 1));
    return (static_cast<size_t>(shift) << kBits) + static_cast<size_t>(value >> shift);
  }
  static Duration middle(size_t i) {
    const int shift = std::max(0, static_cast<int>(i >> kBits) - 1);
    const uint64_t low = (i - (static_cast<uint64_t>(shift) << kBits)) << shift;
    return Duration::nanos(static_cast<int64_t>(low + ((uint64_t{1} << shift) >> 1)));
  }

  std::vector<uint64_t> counts_;
  uint64_t count_ = 0;
  double sum_ = 0;
  Duration max_;
};

}  // namespace fermata
