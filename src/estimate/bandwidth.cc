#include "estimate/bandwidth.h"

#include <algorithm>

namespace fermata::estimate {

void Bandwidth::echoed(Duration way) {
  ways_.push_back(way);
  if (ways_.size() > kRemembered) ways_.pop_front();
}

Duration Bandwidth::round_trip() const {
  return ways_.empty() ? Duration() : *std::min_element(ways_.begin(), ways_.end());
}

void Bandwidth::acknowledged(uint64_t bytes, Duration way, Time now) {
  const Duration transfer = std::max(way - round_trip(), kShortest);
  transfers_.push_back({now, static_cast<double>(bytes) * 8e-6 / transfer.seconds()});
}

std::optional<double> Bandwidth::mbps(Time now) {
  while (transfers_.size() > 1 && transfers_.front().at + kWindow < now) transfers_.pop_front();
  if (transfers_.empty()) return std::nullopt;
  double inverse = 0;
  for (const Transfer& t : transfers_) inverse += 1 / std::max(t.mbps, 1e-9);
  return static_cast<double>(transfers_.size()) / inverse;
}

std::optional<Duration> Bandwidth::network_time(uint64_t bytes, Time now) {
  const std::optional<double> rate = mbps(now);
  if (!rate) return std::nullopt;
  return Duration::from_seconds(static_cast<double>(bytes) * 8e-6 / *rate) + round_trip();
}

size_t back_off(absl::Span<const uint64_t> frame_bytes, double rate, std::optional<double> mbps,
                double share) {
  size_t size = frame_bytes.empty() ? 0 : frame_bytes.size() - 1;
  if (!mbps) return size;
  while (size > 0 && static_cast<double>(frame_bytes[size]) * 8e-6 * rate > share * *mbps) --size;
  return size;
}

}  // namespace fermata::estimate
