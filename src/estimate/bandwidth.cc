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
  const double reached = std::max(static_cast<double>(bytes) * 8e-6 / transfer.seconds(), 1e-9);
  if (const auto expected = mean(now - way - kWindow, now - way)) {
    sure_share_.observe(std::clamp(reached / *expected, 1e-3, 1.0));
  }
  transfers_.push_back({now, reached, bytes >= kTelling});
  if (transfers_.back().tells) told_ = transfers_.back();
}

std::optional<double> Bandwidth::mean(Time from, Time to) const {
  double telling = 0, small = 0;  // sums of the inverse
  int tell = 0, count = 0;
  for (const Transfer& t : transfers_) {
    if (t.at < from || t.at > to) continue;
    (t.tells ? telling : small) += 1 / t.mbps;
    tell += t.tells;
    ++count;
  }
  if (count == 0) return std::nullopt;
  std::optional<double> told, mean;
  if (tell > 0) told = tell / telling;
  if (tell == 0 && told_) told = told_->mbps;
  if (count > tell) mean = (count - tell) / small;
  if (!told || !mean) return told ? told : mean;
  return *mean < *told * kSlower ? *mean : *told;
}

std::optional<double> Bandwidth::mbps(Time now) {
  while (transfers_.size() > 1 && transfers_.front().at + kWindow * 2 < now) transfers_.pop_front();
  if (transfers_.empty()) return std::nullopt;
  const std::optional<double> lately = mean(now - kWindow, now);
  return lately ? lately : mean(transfers_.back().at, now);
}

std::optional<double> Bandwidth::sure_mbps(Time now) {
  std::optional<double> rate = mbps(now);
  if (rate) *rate *= std::min(sure_share_.value(), 1.0);
  return rate;
}

std::optional<double> Bandwidth::lately_mbps(Time now) {
  std::optional<double> rate = mbps(now);
  if (rate) rate = std::min(*rate, transfers_.back().mbps);
  return rate;
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
