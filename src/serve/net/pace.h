#pragma once

#include <chrono>
#include <cstdint>

namespace fermata::serve {

// How fast bytes came lately: those of the last second or two.
class Pace {
 public:
  using Moment = std::chrono::steady_clock::time_point;

  void start(Moment now) {
    before_ = current_ = now;
    bytes_before_ = bytes_ = 0;
  }
  void add(uint64_t bytes, Moment now) {
    if (now - current_ >= kWindow) {
      before_ = now - current_ >= 2 * kWindow ? now - kWindow : current_;
      bytes_before_ = now - current_ >= 2 * kWindow ? 0 : bytes_;
      current_ = now;
      bytes_ = 0;
    }
    bytes_ += bytes;
  }
  // How long `held` bytes take so; zero in the first second, when nothing is known yet.
  std::chrono::duration<double> time_for(uint64_t held, Moment now) const {
    const std::chrono::duration<double> seen = now - before_;
    if (seen < kWindow) return {};
    return seen * (static_cast<double>(held) / (static_cast<double>(bytes_before_ + bytes_) + 1));
  }

 private:
  static constexpr std::chrono::seconds kWindow{1};
  Moment before_, current_;  // when the last whole window and this one began
  uint64_t bytes_before_ = 0, bytes_ = 0;
};

}  // namespace fermata::serve
