#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "base/time.h"

namespace fermata::simulate {

// What was measured of something again and again, by when; at least one, in the order of time.
template <class Value>
struct Measured {
  struct Moment {
    Duration at;
    Value value = {};
  };
  std::vector<Moment> moments;

  // The last that had been measured by then, else the first.
  const Value& at(Duration moment) const {
    const auto after = [](Duration m, const Moment& each) { return m < each.at; };
    const auto next = std::upper_bound(moments.begin(), moments.end(), moment, after);
    return next == moments.begin() ? moments.front().value : (next - 1)->value;
  }
};

// How long a batch really took: `ratio` times what its model's latency says, and `over` besides,
// whatever its size.
struct Slowdown {
  double ratio = 1;
  Duration over;
};
using MeasuredDrift = Measured<Slowdown>;
using MeasuredDelay = Measured<Duration>;

// What a recorded server itself took; null: nothing is known of it.
struct RecordedDelays {
  // From a decision, or the end of the batch before it, until a batch started. The policy learns
  // how much to allow for, as in the server.
  std::shared_ptr<const MeasuredDelay> start;
  std::shared_ptr<const MeasuredDelay> decision;  // from a batch's end until the next decision
  std::shared_ptr<const MeasuredDelay> reply;     // from a batch's end until its answers were sent
};

}  // namespace fermata::simulate
