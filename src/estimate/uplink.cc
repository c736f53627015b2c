#include "estimate/uplink.h"

#include <algorithm>

namespace fermata::estimate {

void Uplink::sent(uint64_t bytes, Time now) { under_way_.push_back({now, bytes}); }

void Uplink::acknowledged(Duration in_server, Time now) {
  if (under_way_.empty()) return;  // of a connection that was lost
  bandwidth_.acknowledged(under_way_.front().bytes, now - in_server - front_start(), now);
  last_end_ = std::max(last_end_, now - in_server - round_trip());
  acknowledged_after_ = std::max(in_server, acknowledged_after_.scaled(kForget));
  under_way_.pop_front();
}

void Uplink::answered(Duration in_server) {
  answered_after_ += (in_server - answered_after_).scaled(kNew);
}

// A frame that should have been acknowledged by now tells that the link has become slower.
std::optional<double> Uplink::lately_mbps(Time now) {
  std::optional<double> mbps = bandwidth_.lately_mbps(now);
  if (!mbps || under_way_.empty()) return mbps;
  const double on_s = (now - front_start() - round_trip() - acknowledged_after_).seconds();
  const double megabits = static_cast<double>(under_way_.front().bytes) * 8e-6;
  if (on_s > megabits / *mbps) mbps = megabits / on_s;
  return mbps;
}

// Until what is under way has left.
double Uplink::wait_s(double mbps, Time now) const {
  if (under_way_.empty()) return 0;
  Time free = front_start();
  for (const Frame& f : under_way_) {
    const double transfer_s = std::min(static_cast<double>(f.bytes) * 8e-6 / mbps, 3600.0);
    free = std::max(free, f.sent) + Duration::from_seconds(transfer_s);
  }
  return std::max((free - now).seconds(), 0.0);
}

std::optional<size_t> Uplink::choose(absl::Span<const uint64_t> frame_bytes, double rate,
                                     Duration slo, Time now) {
  const std::optional<double> mbps = lately_mbps(now);
  size_t size = back_off(frame_bytes, rate, bandwidth_.mbps(now));
  if (!mbps) return under_way_.empty() ? std::optional(size) : std::nullopt;
  const double wait = wait_s(*mbps, now);
  if (wait > slo.seconds() / 2) return std::nullopt;
  const double left_s = (slo - round_trip() - answered_after_).seconds() - wait;
  while (size > 0 && static_cast<double>(frame_bytes[size]) * 8e-6 > left_s * *mbps) --size;
  return size;
}

}  // namespace fermata::estimate
