#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "base/time.h"

namespace fermata::cluster {

// How far the clock of another part is from ours. Of the exchanges of the last seconds the fastest
// says most, since the way there and the way back took no longer than it did (the minimum filter of
// NTP, RFC 5905, section 10). O(1).
class ClockOffset {
 public:
  struct Bound {
    Duration offset;  // what theirs shows beyond ours
    Duration error;   // at most
  };

  // Ours when it was sent and when the answer was there; theirs in between.
  void observe(Time sent, Time theirs, Time received) {
    if (theirs.nanos() > kMost || theirs.nanos() < -kMost) return;  // no clock
    const Duration half = (received - sent) / 2;
    const int64_t second = received.nanos() / Duration::seconds(1).nanos();
    Sample& place = samples_[static_cast<size_t>(second) % samples_.size()];
    if (place.second == second && place.half <= half) return;
    place = {second, received, half, theirs - (sent + half)};
  }
  // Nothing: no exchange of the last seconds.
  std::optional<Bound> bound(Time now) const {
    std::optional<Bound> best;
    for (const Sample& each : samples_) {
      const Duration age = now - each.at;
      if (each.second < 0 || age > kKept) continue;
      const Duration error = each.half + age.scaled(kDrift);
      if (!best || error < best->error) best = {each.offset, error};
    }
    return best;
  }

 private:
  static constexpr Duration kKept = Duration::seconds(8);
  static constexpr int64_t kMost = int64_t{1} << 60;
  static constexpr double kDrift = 1e-4;  // what two clocks may run apart
  struct Sample {
    int64_t second = -1;
    Time at;
    Duration half, offset;
  };
  std::array<Sample, 8> samples_;  // by second, the fastest
};

}  // namespace fermata::cluster
