#include "client/stream_session.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace fermata::client {

StreamSession::StreamSession(Duration slo, double rate_rps)
    : slo_(slo),
      interval_(Duration::from_seconds(1 / rate_rps)),
      rate_rps_(rate_rps),
      most_under_way_(static_cast<size_t>(std::max(1.0, std::ceil(rate_rps * slo.seconds())))) {
  FERMATA_CHECK(slo > Duration() && rate_rps > 0);
}

Time StreamSession::due(Time now) {
  if (!due_ || *due_ < now - interval_) due_ = now;
  return *due_;
}

void StreamSession::taken() {
  const Duration move = std::clamp(shift_, -interval_ / 2, interval_ / 2);
  shift_ = Duration();
  if (!due_) return;
  *due_ = *due_ + interval_;
  if (std::max(move, -move) > kLeastShift) *due_ = *due_ + move;
}

bool StreamSession::wants_hello(Time now) const { return !hello_at_ || now >= *hello_at_ + kHello; }

std::optional<uint32_t> StreamSession::side(Time now) {
  if (asked_ == 0 || unmapped_ || frames_ >= most_under_way_) return std::nullopt;
  const std::optional<double> mbps = link_.mbps(now);
  if (!mbps && frames_ > 0) return std::nullopt;
  // What stands before a frame on the link may take half of its time.
  double waiting = 0;
  for (const auto& [id, sent] : under_way_) {
    const bool arrived = last_arrival_ && sent.at <= *last_arrival_;
    if (!sent.hello && !arrived) waiting += static_cast<double>(sent.bytes);
  }
  if (mbps && waiting * 8e-6 / *mbps >= slo_.seconds() / 2) return std::nullopt;
  std::vector<uint32_t> sides;
  std::vector<uint64_t> bytes;
  for (auto it = bytes_.begin(); it != bytes_.end() && it->first <= asked_; ++it) {
    sides.push_back(it->first);
    bytes.push_back(it->second);
  }
  if (sides.empty() || sides.back() != asked_) return asked_;
  return sides[estimate::back_off(bytes, rate_rps_, mbps)];
}

uint64_t StreamSession::sent_hello(uint64_t bytes, Time now) {
  hello_at_ = now;
  under_way_[++last_id_] = {.bytes = bytes, .at = now, .hello = true};
  return last_id_;
}

uint64_t StreamSession::sent_frame(uint64_t tag, uint32_t side, uint64_t bytes, Time now) {
  if (bytes_.size() < kMostSides || bytes_.contains(side)) bytes_[side] = bytes;
  under_way_[++last_id_] = {.tag = tag, .bytes = bytes, .side = side, .at = now};
  ++frames_;
  return last_id_;
}

std::optional<StreamSession::Ended> StreamSession::answered(uint64_t id,
                                                            const std::optional<Told>& told,
                                                            Time now) {
  const auto found = under_way_.find(id);
  if (found == under_way_.end()) return std::nullopt;
  const Sent sent = found->second;
  under_way_.erase(found);
  if (!sent.hello) --frames_;
  if (told) learn(sent, *told, now);
  if (sent.hello) return std::nullopt;
  return Ended{sent.tag, sent.side, sent.at};
}

void StreamSession::learn(const Sent& sent, const Told& told, Time now) {
  const Duration half_way = link_.round_trip() / 2;
  const Time arrived = now - told.in_server;
  // A message cannot leave before the one ahead of it has.
  const bool behind = last_arrival_ && sent.at < *last_arrival_ - half_way;
  const Time start = behind ? *last_arrival_ - half_way : sent.at;
  if (!sent.hello || sent.bytes >= kPadding) {
    link_.acknowledged(sent.bytes, arrived - start, now);
  } else if (!behind) {
    link_.echoed(std::max(arrived - sent.at, Duration()));
  }
  last_arrival_ = std::max(last_arrival_.value_or(arrived - half_way), arrived - half_way);
  unmapped_ = told.unmapped;
  if (unmapped_) return;
  asked_ = told.input_size;
  shift_ = told.shift;
}

std::vector<StreamSession::Ended> StreamSession::lost() {
  std::vector<Ended> frames;
  for (const auto& [id, sent] : under_way_) {
    if (!sent.hello) frames.push_back({sent.tag, sent.side, sent.at});
  }
  under_way_.clear();
  frames_ = 0;
  hello_at_.reset();
  return frames;
}

}  // namespace fermata::client
