#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "base/time.h"

namespace fermata {

// How a profile states the time of a batch of b items, in milliseconds:
// alpha*b + beta (Symphony 3.1); a*b^2 + b*b + c (IPA 4.2); or measured points,
// linear between them and undefined beyond the last.
struct LinearLatency {
  double alpha_ms = 0, beta_ms = 0;
};
struct QuadraticLatency {
  double a = 0, b = 0, c = 0;
};
struct TableLatency {
  std::map<uint32_t, double> points_ms;
};
using LatencyModel = std::variant<LinearLatency, QuadraticLatency, TableLatency>;

// The same as an immutable snapshot for decisions: the latency of every batch
// size from 1 to max_batch, non-decreasing, O(1). A new measurement makes a new
// snapshot with a higher version; nobody changes one that is in use.
class LatencyTable {
 public:
  // max_batch >= 1; a table model whose last point is below it caps it. Fails on
  // times that are negative, above 1e12 ms (so not finite too), or zero.
  static absl::StatusOr<std::shared_ptr<const LatencyTable>> make(const LatencyModel& model,
                                                                  uint32_t max_batch,
                                                                  uint64_t version = 0);
  uint32_t max_batch() const { return static_cast<uint32_t>(by_batch_.size()) - 1; }
  uint64_t version() const { return version_; }
  // 1 <= items; above max_batch the last increment continues.
  [[gnu::always_inline]] Duration operator()(uint32_t items) const {
    if (items < by_batch_.size()) [[likely]]
      return by_batch_[items];
    return by_batch_.back() + slope_ * (static_cast<int64_t>(items) - max_batch());
  }
  // The most items (0..max_batch) that take no longer than `budget`. O(log max_batch).
  uint32_t largest_within(Duration budget) const;

 private:
  std::vector<Duration> by_batch_;  // [0] is zero and unused
  Duration slope_;
  uint64_t version_ = 0;
};

}  // namespace fermata
