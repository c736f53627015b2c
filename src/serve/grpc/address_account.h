#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>

namespace fermata::serve {

// What all gRPC connections of one address do together. Beyond it the connections of the address
// that do more of the same than a few are ended, those that are made anew as well. Thread-safe.
class AddressAccount {
 public:
  using Moment = std::chrono::steady_clock::time_point;
  static constexpr uint32_t kFramesASecond = 2048;  // that are no calls and ask for work
  static constexpr uint32_t kFramesAtOnce = 2 * kFramesASecond;

  // `most_calls`: whose clients may still send, of all its connections.
  explicit AddressAccount(int64_t most_calls) : most_calls_(most_calls) {}

  // A frame came that is no call, and asks for the work of so many; false: too many.
  bool take_frame(uint32_t weight, Moment now) {
    const std::scoped_lock lock(mutex_);
    refill(now);
    if (frames_ < weight) return false;
    frames_ -= weight;
    return true;
  }
  // Whether it may be forgotten while it has no connection.
  bool is_quiet(Moment now) {
    const std::scoped_lock lock(mutex_);
    refill(now);
    return frames_ >= kFramesAtOnce && calls_ == 0;
  }
  void add_calls(int64_t calls) { calls_.fetch_add(calls, std::memory_order_relaxed); }
  bool is_crowded() const { return calls_.load(std::memory_order_relaxed) > most_calls_; }

 private:
  void refill(Moment now) {
    const std::chrono::duration<double> since = now - as_of_;
    frames_ = std::min<double>(frames_ + since.count() * kFramesASecond, kFramesAtOnce);
    as_of_ = now;
  }

  const int64_t most_calls_;
  std::mutex mutex_;
  double frames_ = kFramesAtOnce;
  Moment as_of_{};
  std::atomic<int64_t> calls_ = 0;
};

}  // namespace fermata::serve
