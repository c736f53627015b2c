#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>

#include "base/quantile_tracker.h"
#include "base/time.h"
#include "engine/execute/executor.h"

namespace fermata::cluster {

// The bound on the way to another host and back, d_ctrl + d_data b (Symphony 4.1): 99 of 100 take
// less; of messages, of the latest kRecent, so that a way that has become longer or shorter is
// known within seconds. Only durations of one clock are in it.
class LinkDelay {
 public:
  // A message without data got there and back.
  void echo(Duration took, Time now) {
    observe_control(took);
    // A bound on data that keeps all data away would never be measured again.
    if (per_byte_ && now - last_data_ > kNoEvidence) {
      last_data_ = now;
      per_byte_->reset(kKept * per_byte_->value());
    }
  }
  // A batch of so many bytes in both directions took so much longer than its run.
  void batch(Duration took, uint64_t bytes, Time now) {
    if (bytes < kFewBytes) return observe_control(took);
    last_data_ = now;
    const double usual = usual_ ? usual_->value() : 0;
    const double data = std::max(1.0, static_cast<double>(took.nanos()) - usual);
    observe(per_byte_, kQuantile, data / static_cast<double>(bytes));
  }
  engine::LinkBound bound() const { return {control_, per_byte_ ? per_byte_->value() : 0}; }

 private:
  static constexpr double kQuantile = 0.99, kKept = 0.9;
  static constexpr uint64_t kFewBytes = 8192;
  static constexpr size_t kRecent = 128;
  static constexpr Duration kNoEvidence = Duration::seconds(1);

  void observe_control(Duration took) {
    recent_[observed_++ % kRecent] = took;
    Duration longest, next;
    for (const Duration each : recent_) {
      next = std::max(next, std::min(each, longest));
      longest = std::max(longest, each);
    }
    control_ = observed_ == 1 ? longest : next;
    observe(usual_, 0.5, static_cast<double>(took.nanos()));
  }
  static void observe(std::optional<QuantileTracker>& tracker, double quantile, double value) {
    const double least = std::max(value, 1e-6);
    if (!tracker) tracker.emplace(quantile, least);
    tracker->observe(least);
  }

  std::array<Duration, kRecent> recent_{};  // that messages took
  size_t observed_ = 0;
  Duration control_;  // the longest but one of them
  // Nanoseconds; the usual time of a message is what half of them take less than.
  std::optional<QuantileTracker> usual_, per_byte_;
  Time last_data_;
};

}  // namespace fermata::cluster
