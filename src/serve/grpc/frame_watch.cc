#include "serve/grpc/frame_watch.h"

#include <algorithm>
#include <utility>

namespace fermata::serve {
namespace {

constexpr size_t kPreface = 24;
constexpr size_t kFrameHead = 9;
constexpr size_t kSetting = 6, kIncrement = 4;  // bytes
constexpr uint64_t kInitialWindowSize = 4;      // the setting's number

uint64_t number(const uint8_t* from, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; ++i) value = value << 8 | from[i];
  return value;
}

bool ends_call(const FrameHead& frame) {
  return frame.kind == FrameKind::kReset ||
         ((frame.kind == FrameKind::kData || frame.kind == FrameKind::kHeaders) &&
          frame.has(FrameHead::kEndStream));
}

}  // namespace

FrameWatch::FrameWatch(Clock now, std::shared_ptr<AddressAccount> address, uint32_t most_silent)
    : now_(now),
      address_(std::move(address)),
      since_(now()),
      most_silent_(most_silent),
      from_client_(kPreface),
      to_client_(0) {}

bool FrameWatch::see(std::string_view bytes) {
  const bool is_good = from_client_.read(
      bytes, [this](const FrameHead& frame) { return begin_frame(frame); },
      [this](const FrameHead& frame, std::string_view piece) {
        if (frame.kind == FrameKind::kData) add_data(frame, piece);
      },
      [this](const FrameHead& frame) {
        if (frame.kind == FrameKind::kData) end_piece(frame);
        if (!ends_call(frame)) return;
        const auto call = calls_.find(frame.stream);
        const bool whole = call != calls_.end() && call->second.whole;
        if (frame.kind != FrameKind::kReset) {
          if (whole) {
            asked_[frame.stream] = now_();
          } else if (call != calls_.end()) {
            wasted(1);
          }
        }
        end_call(frame.stream);
      });
  return is_good && !crumbled_;
}

void FrameWatch::sent(std::string_view bytes) {
  to_client_.read(
      bytes,
      [this](const FrameHead&) {
        said_.have = 0;
        return true;
      },
      [this](const FrameHead& frame, std::string_view piece) { hear(frame, piece); },
      [this](const FrameHead& frame) {
        if (frame.kind == FrameKind::kData && frame.size > 0) {
          replies_ = std::min(replies_ + 1, kFramesASecond);
          updates_ = std::min(updates_ + kUpdates + frame.size / kBytesOfUpdate, kMostUpdates);
        }
        if (!ends_call(frame)) return;
        answers_ += asked_.erase(frame.stream);
        const auto call = calls_.find(frame.stream);
        if (call == calls_.end()) return;
        if (!call->second.whole) wasted(1);
        late_ = std::min(late_ + kLateCrumbs, kMostLateCrumbs);
        end_call(frame.stream);
      });
}

// What the server says of windows. Those that a setting narrows again stay as wide as they were:
// the client may not have heard of it.
void FrameWatch::hear(const FrameHead& frame, std::string_view piece) {
  const bool is_update = frame.kind == FrameKind::kWindowUpdate;
  if (!is_update && frame.kind != FrameKind::kSettings) return;
  for (const char byte : piece) {
    said_.bytes[said_.have++] = static_cast<uint8_t>(byte);
    if (said_.have < (is_update ? kIncrement : kSetting)) continue;
    said_.have = 0;
    if (is_update) {
      const auto call = calls_.find(frame.stream);
      if (call != calls_.end()) call->second.opened += number(said_.bytes.data(), kIncrement);
    } else if (number(said_.bytes.data(), 2) == kInitialWindowSize) {
      window_ = std::max(window_, number(said_.bytes.data() + 2, 4));
    }
  }
}

// False: it is a flood.
bool FrameWatch::is_within_window(const FrameHead& frame) {
  const auto call = calls_.find(frame.stream);
  if (call == calls_.end()) {
    if (frame.size >= kCrumb) return true;
    if (late_ == 0) return count(1, false);
    --late_;
    return true;
  }
  call->second.received += frame.size;
  return call->second.received <= window_ + call->second.opened;
}

bool FrameWatch::begin_frame(const FrameHead& frame) {
  if (frame.kind == FrameKind::kHeaders || frame.kind == FrameKind::kContinuation) {
    head_ += kFrameHead + frame.size;
    if (head_ > kHeadBytes) return false;
    if (frame.has(FrameHead::kEndHeaders)) head_ = 0;
    return frame.kind != FrameKind::kHeaders || begin_call(frame.stream);
  }
  if (frame.kind == FrameKind::kWindowUpdate && updates_ > 0) {
    --updates_;
    return true;
  }
  const bool is_data = frame.kind == FrameKind::kData;
  if (is_data && frame.size > 0) return is_within_window(frame);
  if (is_data && frame.has(FrameHead::kEndStream)) return true;
  if (frame.kind == FrameKind::kSettings && frame.has(FrameHead::kAcknowledged)) {
    settled_ = settled_ || answered_;
  }
  if (frame.kind == FrameKind::kPing && replies_ > 0) {
    --replies_;
    return true;
  }
  if (frame.kind != FrameKind::kReset) return count(1, false);
  // Who gives up a call that it has sent, as at its deadline, costs its address nothing; who does
  // so at once does it for nothing else.
  if (const auto asked = asked_.find(frame.stream); asked != asked_.end()) {
    const bool is_soon = now_() - asked->second < kSoon;
    asked_.erase(asked);
    return count(1, !is_soon);
  }
  const auto call = calls_.find(frame.stream);
  return count(call != calls_.end() && !call->second.whole ? kWastedCall : 1, false);
}

bool FrameWatch::begin_call(uint32_t stream) {
  ++begun_;
  updates_ = std::min(updates_ + kUpdates, kMostUpdates);
  if (calls_.try_emplace(stream).second) {
    unfinished_ += kCallHolds;
    ++silent_;
    if (address_ != nullptr) address_->add_calls(1);
  }
  if (silent_ > most_silent_) return false;
  if (address_ != nullptr && address_->is_crowded(now_) && is_beyond_few()) return false;
  return settled_ || ++unsettled_ <= kCallsUnsettled;
}

bool FrameWatch::is_beyond_few() const {
  return calls_.size() > (proven_ ? kFewCalls : kFewFirstCalls) ||
         asked_.size() > (answers_ > 0 ? kFewCalls : kFewAsked);
}

void FrameWatch::speaks(Call& call) {
  if (std::exchange(call.silent, false)) --silent_;
}

void FrameWatch::end_call(uint32_t stream) {
  const auto found = calls_.find(stream);
  if (found == calls_.end()) return;
  speaks(found->second);
  unfinished_ -= found->second.holds;
  calls_.erase(found);
  if (address_ != nullptr) address_->add_calls(-1);
}

void FrameWatch::forget_calls(bool by_us) {
  if (address_ != nullptr) address_->add_calls(-static_cast<int64_t>(calls_.size()));
  const auto unfinished = std::count_if(calls_.begin(), calls_.end(),
                                        [](const auto& call) { return !call.second.whole; });
  const uint64_t unpaid = asked_.size() - std::min<uint64_t>(asked_.size(), answers_);
  if (!by_us) wasted(static_cast<uint64_t>(unfinished) + unpaid);
  silent_ = 0;
  unfinished_ = 0;
  calls_.clear();
  asked_.clear();
}

void FrameWatch::add_data(const FrameHead& frame, std::string_view piece) {
  const auto found = calls_.find(frame.stream);
  if (found == calls_.end()) return;
  Call& call = found->second;
  speaks(call);
  call.holds += kPieceHolds;
  unfinished_ += kPieceHolds;
  while (!piece.empty()) {
    size_t taken = 0;
    if (call.have < call.prefix.size()) {
      call.prefix[call.have++] = static_cast<uint8_t>(piece.front());
      taken = 1;
      if (call.have == call.prefix.size()) {
        call.left = uint32_t{call.prefix[1]} << 24 | uint32_t{call.prefix[2]} << 16 |
                    uint32_t{call.prefix[3]} << 8 | call.prefix[4];
      }
    } else {
      taken = std::min<size_t>(call.left, piece.size());
      call.left -= static_cast<uint32_t>(taken);
    }
    piece.remove_prefix(taken);
    call.holds += taken;
    unfinished_ += taken;
    if (call.have == call.prefix.size() && call.left == 0) take_message(call);
  }
}

// A frame of data has ended. One byte in a frame of its own costs gRPC as much as 16 KiB do.
void FrameWatch::end_piece(const FrameHead& frame) {
  const auto found = calls_.find(frame.stream);
  if (found == calls_.end() || found->second.have == 0 || frame.size >= kCrumb) return;
  if (found->second.crumbs < kFewCrumbs) {
    ++found->second.crumbs;
  } else if (!count(1, false)) {
    crumbled_ = true;
  }
}

// It is whole: gRPC hands it on, and who has it counts it.
void FrameWatch::take_message(Call& call) {
  call.have = call.crumbs = 0;
  call.whole = proven_ = true;
  unfinished_ -= std::exchange(call.holds, 0);
}

void FrameWatch::wasted(uint64_t calls) {
  if (address_ != nullptr && calls > 0) address_->waste(calls * kWastedCall, now_());
}

bool FrameWatch::count(uint32_t weight, bool alone) {
  const auto now = now_();
  if (now - since_ >= std::chrono::seconds(1)) {
    since_ = now;
    counted_ = 0;
  }
  counted_ += weight;
  const bool is_crowded = !alone && address_ != nullptr && !address_->take_frame(weight, now);
  return counted_ < (is_crowded ? kFewFrames : kFramesASecond);
}

}  // namespace fermata::serve
