#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/time.h"

namespace fermata::policy {

// With how many workers streams are planned that come and go. Those that have gone count for some
// seconds yet, and those that have not come do from the first plan on: others come at once where a
// scheduler takes over, and clients that have no place are told so for longer.
class CountedWorkers {
 public:
  static constexpr Duration kComesBack = Duration::seconds(3);
  explicit CountedWorkers(uint32_t all) : counted_(all) {}

  // For a plan: of those that are there, at least one.
  uint32_t plan(uint32_t there, Time now) {
    if (!as_many_at_) as_many_at_ = now;
    if (there >= counted_ || *as_many_at_ + kComesBack < now) {
      counted_ = std::max(there, 1u);
      as_many_at_ = now;
    }
    return counted_;
  }

 private:
  uint32_t counted_;
  std::optional<Time> as_many_at_;  // when there were so many, last; none: nothing was planned yet
};

}  // namespace fermata::policy
