#include "client/stream_session.h"

#include <algorithm>
#include <cmath>
#include <utility>

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
  if (std::max(move, -move) <= kLeastShift) return;
  *due_ = *due_ + move;
  moved_at_ = *due_;
}

bool StreamSession::wants_hello(Time now) const {
  if (!hello_at_) return true;
  if (connected_ && !echoed_ && !greets_) return true;
  if (now < *hello_at_ + kHello) return false;
  if (unmapped_ || now >= *hello_at_ + kHello * 2) return true;
  return link_.under_way() == 0;
}

bool StreamSession::has_to_probe(Time now) const {
  if (!sends_ || !echoed_) return false;  // the way comes first
  const std::optional<Time> told = link_.told_at();
  return !told || now >= *told + kProbe;
}

std::optional<uint32_t> StreamSession::side(Time now) {
  if (asked_ == 0 || unmapped_ || frames_ >= most_under_way_) return std::nullopt;
  std::vector<uint32_t> sides;
  std::vector<uint64_t> bytes;
  uint64_t largest = 0;
  for (const auto& [side, size] : bytes_) {
    largest = std::max(largest, size);
    if (side > asked_) continue;
    sides.push_back(side);
    bytes.push_back(size);
  }
  if (sides.empty() || sides.back() != asked_) {
    sides.push_back(asked_);
    bytes.push_back(largest);
  }
  const std::optional<size_t> chosen = link_.choose(bytes, rate_rps_, slo_, now);
  return chosen ? std::optional(sides[*chosen]) : std::nullopt;
}

uint64_t StreamSession::sent_hello(uint64_t bytes, Time now) {
  const bool measures = bytes >= kPadding, alone = connected_ && link_.under_way() == 0;
  hello_at_ = now;
  greets_ = true;
  if (measures) link_.sent(bytes, now);
  under_way_[++last_id_] = {
      .bytes = measures ? bytes : 0, .at = now, .hello = true, .alone = alone};
  return last_id_;
}

uint64_t StreamSession::sent_frame(uint64_t tag, uint32_t side, uint64_t bytes, Time now) {
  if (bytes_.size() < kMostSides || bytes_.contains(side)) bytes_[side] = bytes;
  link_.sent(bytes, now);
  sends_ = true;
  under_way_[++last_id_] = {.tag = tag, .bytes = bytes, .side = side, .at = now};
  ++frames_;
  return last_id_;
}

void StreamSession::acknowledged(uint64_t id, Duration in_server, Time now) {
  const auto found = under_way_.find(id);
  if (found != under_way_.end()) arrive(found->second, in_server, now);
}

void StreamSession::arrive(Sent& sent, Duration in_server, Time now) {
  if (std::exchange(sent.arrived, true)) return;
  if (sent.bytes > 0) {
    link_.acknowledged(in_server, now);
  } else if (sent.alone) {
    link_.echoed(std::max(now - in_server - sent.at, Duration()));
    echoed_ = true;
  }
}

std::optional<StreamSession::Ended> StreamSession::answered(uint64_t id,
                                                            const std::optional<Told>& told,
                                                            Time now) {
  const auto found = under_way_.find(id);
  if (found == under_way_.end()) return std::nullopt;
  arrive(found->second, told ? told->in_server : Duration(), now);
  const Sent sent = found->second;
  under_way_.erase(found);
  connected_ = true;
  if (sent.hello) greets_ = false;
  if (!sent.hello) --frames_;
  if (told) learn(sent, *told);
  if (sent.hello) return std::nullopt;
  return Ended{sent.tag, sent.side, sent.at};
}

void StreamSession::learn(const Sent& sent, const Told& told) {
  if (!sent.hello) link_.answered(told.in_server);
  unmapped_ = told.unmapped;
  if (unmapped_) return;
  asked_ = told.input_size;
  if (sent.at >= moved_at_) shift_ = told.shift;
}

std::vector<StreamSession::Ended> StreamSession::lost() {
  std::vector<Ended> frames;
  for (const auto& [id, sent] : under_way_) {
    if (!sent.hello) frames.push_back({sent.tag, sent.side, sent.at});
  }
  under_way_.clear();
  link_.lost();
  frames_ = 0;
  hello_at_.reset();
  connected_ = greets_ = sends_ = false;
  return frames;
}

}  // namespace fermata::client
