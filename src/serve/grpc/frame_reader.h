#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace fermata::serve {

// RFC 9113, section 6: those that matter here.
enum class FrameKind : uint8_t {
  kData = 0,
  kHeaders = 1,
  kReset = 3,
  kSettings = 4,
  kPing = 6,
  kWindowUpdate = 8,
  kContinuation = 9
};

struct FrameHead {
  static constexpr uint8_t kEndStream = 1, kEndHeaders = 4, kAcknowledged = 1;
  uint32_t size = 0;  // of its body
  FrameKind kind = FrameKind::kData;
  uint8_t flags = 0;
  uint32_t stream = 0;
  bool has(uint8_t flag) const { return (flags & flag) != 0; }
};

// Cuts one direction of an HTTP/2 connection, which comes in pieces of any size, into its frames.
class FrameReader {
 public:
  // `before`: bytes ahead of the first frame.
  explicit FrameReader(size_t before) : left_(before) {}

  // For each frame begin(head), then body(head, piece) for the pieces of its body, then end(head).
  // False, and nothing is read any more, where begin() says so.
  template <class Begin, class Body, class End>
  bool read(std::string_view bytes, Begin begin, Body body, End end) {
    for (;;) {
      if (left_ > 0) {
        const size_t piece = std::min(left_, bytes.size());
        left_ -= piece;
        if (inside_ && piece > 0) body(head_, std::string_view(bytes.data(), piece));
        bytes.remove_prefix(piece);
        if (left_ > 0) return true;
      }
      if (inside_) end(head_);
      inside_ = false;
      if (have_ == 0 && bytes.size() >= start_.size()) {
        parse(bytes.data());
        bytes.remove_prefix(start_.size());
      } else if (!take_start(bytes)) {
        return true;
      }
      if (!begin(head_)) return false;
    }
  }

 private:
  // False: it is not whole yet, and all of the bytes are taken.
  bool take_start(std::string_view& bytes) {
    const size_t taken = std::min(start_.size() - have_, bytes.size());
    if (taken > 0) std::memcpy(start_.data() + have_, bytes.data(), taken);
    have_ += taken;
    bytes.remove_prefix(taken);
    if (have_ < start_.size()) return false;
    have_ = 0;
    parse(start_.data());
    return true;
  }
  void parse(const char* start) {
    const auto byte = [start](size_t i) { return uint32_t{static_cast<uint8_t>(start[i])}; };
    const auto word = [byte](size_t i) {
      return byte(i) << 24 | byte(i + 1) << 16 | byte(i + 2) << 8 | byte(i + 3);
    };
    head_ = {word(0) >> 8, static_cast<FrameKind>(byte(3)), static_cast<uint8_t>(byte(4)),
             word(5) & 0x7fffffff};
    left_ = head_.size;
    inside_ = true;
  }

  size_t left_;          // of what stands before, or of a body
  bool inside_ = false;  // of a frame
  std::array<char, 9> start_{};
  size_t have_ = 0;  // of the start
  FrameHead head_;
};

}  // namespace fermata::serve
