#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "absl/types/span.h"
#include "base/quantile_tracker.h"
#include "base/time.h"

namespace fermata::estimate {

// What a client knows of its way to the server, from transfers that the server has
// acknowledged (Jellyfish, sections 3.3 and 6). Small transfers tell too much: what shapes a link
// lets a few packets pass at once, and a millisecond is a large part of them. So what the last
// larger one told counts, until the small ones are half as fast. Not safe across threads.
class Bandwidth {
 public:
  // A small message came back after `way`, without the time that the server had it. The
  // round-trip time is the least of the last kRemembered; other messages may have stood before
  // the larger ones.
  void echoed(Duration way);
  // `bytes` were sent and acknowledged after `way`, without the time that the server had them.
  // `now` never goes back.
  void acknowledged(uint64_t bytes, Duration way, Time now);

  Duration round_trip() const;  // zero as long as nothing has come back
  // From so many bytes on a transfer tells how fast the link is.
  static constexpr uint64_t kTelling = 6000;
  // When the last of these was acknowledged, as far as there were any.
  std::optional<Time> told_at() const { return told_ ? std::optional(told_->at) : std::nullopt; }
  // The harmonic mean of the last second's transfers that tell, or the last of them; of the small
  // ones where that is less than half of it, or there is no other. The last one's if there was none
  // in that second; a million bits a second. None before the first.
  std::optional<double> mbps(Time now);
  // What 19 of 20 transfers reach, by how far the earlier ones stayed behind the mean of the
  // second before they were sent: plans that count on it are rarely late when a link slows down.
  std::optional<double> sure_mbps(Time now);
  // The last transfer's, where that is less than the mean.
  std::optional<double> lately_mbps(Time now);
  // s/W + RTT (equation 1); none before the first transfer.
  std::optional<Duration> network_time(uint64_t bytes, Time now);

 private:
  static constexpr Duration kWindow = Duration::seconds(1);
  static constexpr Duration kShortest = Duration::micros(10);  // of a transfer, against noise
  static constexpr size_t kRemembered = 16;
  static constexpr double kSlower =
      0.5;  // than what told: then the link is, whatever small ones are
  static constexpr double kUnsure = 0.05, kFirstShare = 0.8;
  struct Transfer {
    Time at;
    double mbps;
    bool tells;
  };
  // Of the transfers that were acknowledged from one moment to another.
  std::optional<double> mean(Time from, Time to) const;

  std::deque<Transfer> transfers_;  // of two windows
  std::optional<Transfer> told_;    // the last that tells
  std::deque<Duration> ways_;
  QuantileTracker sure_share_{kUnsure, kFirstShare};
};

// How large to send, whatever the server asked for: the last of `frame_bytes` (ascending sizes,
// up to the one that is asked for) of which `rate` a second use at most `share` of the link; 0,
// the smallest, if none does. Without an estimate what is asked for.
size_t back_off(absl::Span<const uint64_t> frame_bytes, double rate, std::optional<double> mbps,
                double share = 0.95);

}  // namespace fermata::estimate
