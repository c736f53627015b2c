#include "serve/grpc/frame_watch.h"

#include <algorithm>
#include <cstring>

namespace fermata::serve {
namespace {

// RFC 9113, section 6.
enum FrameKind : uint8_t {
  kData = 0,
  kHeaders = 1,
  kSettings = 4,
  kWindowUpdate = 8,
  kContinuation = 9
};
constexpr uint8_t kEndStream = 1, kEndHeaders = 4, kAcknowledged = 1;

}  // namespace

bool FrameWatch::see(std::string_view bytes) {
  for (;;) {
    const size_t skipped = std::min(skip_, bytes.size());
    skip_ -= skipped;
    bytes.remove_prefix(skipped);
    const size_t taken = std::min(start_.size() - have_, bytes.size());
    std::memcpy(start_.data() + have_, bytes.data(), taken);
    have_ += taken;
    bytes.remove_prefix(taken);
    if (have_ < start_.size()) return true;
    have_ = 0;
    if (!begin_frame()) return false;
  }
}

bool FrameWatch::begin_frame() {
  const auto byte = [this](size_t i) { return static_cast<uint8_t>(start_[i]); };
  skip_ = size_t{byte(0)} << 16 | size_t{byte(1)} << 8 | byte(2);
  const uint8_t kind = byte(3), flags = byte(4);
  if (kind == kHeaders || kind == kContinuation) {
    calls_ += kind == kHeaders;
    head_ += start_.size() + skip_;
    if (head_ > kHeadBytes) return false;
    if ((flags & kEndHeaders) != 0) head_ = 0;
    return settled_ || kind != kHeaders || ++unsettled_ <= kCallsUnsettled;
  }
  if (kind == kWindowUpdate) return true;  // as many as a reply has pieces; nothing answers them
  if (kind == kData && (skip_ > 0 || (flags & kEndStream) != 0)) return true;
  if (kind == kSettings && (flags & kAcknowledged) != 0) settled_ = settled_ || answered_;
  return count();
}

bool FrameWatch::count() {
  if (++counted_ < kFramesASecond) return true;
  const auto now = now_();
  const bool slow = now - since_ >= std::chrono::seconds(1);
  since_ = now;
  counted_ = 0;
  return slow;
}

}  // namespace fermata::serve
