#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "absl/types/span.h"
#include "base/time.h"
#include "estimate/bandwidth.h"

namespace fermata::estimate {

// A client's side of its link to a stream service: which frames are under way, and what may be
// sent next so that it is answered within the objective. Frames leave one after the other and are
// acknowledged in that order; soon, where the server acknowledges them before it answers, else by
// their answers. `now` never goes back. Every call is O(frames of two seconds). Not safe across
// threads.
class Uplink {
 public:
  void echoed(Duration way) { bandwidth_.echoed(way); }  // of a message without a frame
  void sent(uint64_t bytes, Time now);
  // The oldest frame under way, which the server had had for `in_server` by then.
  void acknowledged(Duration in_server, Time now);
  // A frame was answered after so long at the server.
  void answered(Duration in_server);
  void lost() { under_way_.clear(); }  // the connection, and what was under way on it

  std::optional<double> mbps(Time now) { return bandwidth_.mbps(now); }
  std::optional<double> sure_mbps(Time now) { return bandwidth_.sure_mbps(now); }
  std::optional<Time> told_at() const { return bandwidth_.told_at(); }
  Duration round_trip() const { return bandwidth_.round_trip(); }
  size_t under_way() const { return under_way_.size(); }

  // Which of `frame_bytes` (ascending sizes, up to the one that the service asks for) to send now:
  // the largest whose rate the link bears and that would be answered within `slo` at the lower of
  // the mean and the last transfers' bandwidth; the first if none would. None: the frame would
  // wait for half of `slo` before it leaves, or nothing is known of the link and one is under way.
  std::optional<size_t> choose(absl::Span<const uint64_t> frame_bytes, double rate, Duration slo,
                               Time now);

 private:
  static constexpr double kForget = 0.95;  // of the longest, with each frame
  static constexpr double kNew = 0.1;      // weight of a new answer in the mean
  struct Frame {
    Time sent;
    uint64_t bytes;
  };
  std::optional<double> lately_mbps(Time now);
  Time front_start() const { return std::max(under_way_.front().sent, last_end_); }
  double wait_s(double mbps, Time now) const;

  Bandwidth bandwidth_;
  std::deque<Frame> under_way_;                   // not acknowledged
  Time last_end_;                                 // when the last acknowledged frame had left
  Duration acknowledged_after_, answered_after_;  // the longest of late, the mean
};

}  // namespace fermata::estimate
