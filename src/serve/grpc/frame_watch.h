#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace fermata::serve {

// Looks at what a client sends over one HTTP/2 connection, in pieces of any size, and says when it
// floods the server with frames that are no calls, none of which gRPC 1.51 bounds: a head that goes
// on for ever in CONTINUATION frames (RFC 9113, section 10.5.1), streams that are reset as fast as
// they are opened, settings and pings that ask for answers, and calls of a client that never says
// that it has seen how many it may have at a time, which gRPC then does not hold it to. What is no
// HTTP/2 is gRPC's to reject.
class FrameWatch {
 public:
  using Clock = std::chrono::steady_clock::time_point (*)();
  // Of one head and its frames; those above 16 KiB gRPC answers itself.
  static constexpr size_t kHeadBytes = 256 * 1024;
  static constexpr uint32_t kFramesASecond = 2048;   // resets, settings, pings and the like
  static constexpr uint32_t kCallsUnsettled = 1024;  // before settings are acknowledged

  explicit FrameWatch(Clock now) : now_(now), since_(now()) {}

  // False: it is a flood, and nothing that comes is looked at any more. O(bytes), less their
  // bodies.
  bool see(std::string_view bytes);
  // The server has sent its settings: only what comes from now on can acknowledge them. gRPC takes
  // an earlier acknowledgement, of a client that cannot have read them, for one of no limits.
  void answered() { answered_ = true; }
  // How many calls have begun.
  uint64_t calls() const { return calls_; }

 private:
  bool begin_frame();
  bool count();

  Clock now_;
  std::chrono::steady_clock::time_point since_;
  uint32_t counted_ = 0;  // since then
  uint32_t unsettled_ = 0;
  uint64_t calls_ = 0;
  bool answered_ = false, settled_ = false;
  size_t skip_ = 24;  // of the preface, or of a frame's body
  size_t head_ = 0;   // bytes of the head that has not ended yet
  std::array<char, 9> start_{};
  size_t have_ = 0;  // of the start of a frame
};

}  // namespace fermata::serve
