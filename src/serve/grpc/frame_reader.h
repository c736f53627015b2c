#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
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
  kContinuation = 9,
  kNone = 255
};

struct FrameHead {
  static constexpr uint8_t kEndStream = 1, kEndHeaders = 4, kAcknowledged = 1;
  uint32_t size = 0;  // of its body
  FrameKind kind = FrameKind::kData;
  uint8_t flags = 0;
  uint32_t stream = 0;
  bool has(uint8_t flag) const { return (flags & flag) != 0; }
};

// Of the wire, whose first byte is the highest.
inline uint32_t word_at(const char* bytes) {
  const auto byte = [bytes](size_t i) { return uint32_t{static_cast<uint8_t>(bytes[i])}; };
  return byte(0) << 24 | byte(1) << 16 | byte(2) << 8 | byte(3);
}

// Cuts one direction of an HTTP/2 connection, which comes in pieces of any size, into its frames.
class FrameReader {
 public:
  // `before`: bytes ahead of the first frame, the body of one of no kind.
  explicit FrameReader(size_t before) : left_(before) {}

  // Of these pieces but for their first `known` bytes: for each frame begin(head), then
  // body(head, piece) for the pieces of its body, then end(head). False, and nothing is read any
  // more, where begin() says so.
  template <class Begin, class Body, class End>
  bool read(std::span<const iovec> pieces, size_t known, Begin begin, Body body, End end) {
    FrameHead head = head_;  // these two in registers
    size_t left = left_;
    for (const iovec& piece : pieces) {
      const char* at = static_cast<const char*>(piece.iov_base);
      const char* const over = at + piece.iov_len;
      const size_t skipped = std::min(known, piece.iov_len);
      known -= skipped;
      at += skipped;
      while (at != over) {
        if (left == 0) {
          if (!take_head(at, over, head)) break;
          if (!begin(head)) return false;
          left = head.size;
        }
        if (const size_t some = std::min(left, static_cast<size_t>(over - at)); some > 0) {
          body(head, std::string_view(at, some));
          at += some;
          left -= some;
        }
        if (left == 0) end(head);
      }
    }
    head_ = head;
    left_ = left;
    return true;
  }

 private:
  static constexpr size_t kHead = 9;  // bytes

  // False: it is not whole yet, and all of the bytes are taken.
  bool take_head(const char*& at, const char* over, FrameHead& head) {
    if (have_ == 0 && over - at >= static_cast<ptrdiff_t>(kHead)) {
      head = head_of(at);
      at += kHead;
      return true;
    }
    while (at != over && have_ < kHead) start_[have_++] = *at++;
    if (have_ < kHead) return false;
    have_ = 0;
    head = head_of(start_.data());
    return true;
  }
  static FrameHead head_of(const char* start) {
    const uint32_t size_and_kind = word_at(start);
    return {size_and_kind >> 8, static_cast<FrameKind>(size_and_kind & 0xff),
            static_cast<uint8_t>(start[4]), word_at(start + 5) & 0x7fffffff};
  }

  size_t left_;  // of what stands before, or of a body
  std::array<char, kHead> start_{};
  size_t have_ = 0;  // of a head
  FrameHead head_{.kind = FrameKind::kNone};
};

}  // namespace fermata::serve
