#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "base/allowance.h"
#include "base/time.h"

namespace fermata::serve {

// Calls that came whole and are not answered, of all addresses.
struct Unanswered {
  const int64_t most = 0;  // beyond it connections that have many of them are not read on
  std::atomic<int64_t> calls = 0;
  std::atomic<int64_t> addresses = 0;  // that have some
};

// What all gRPC connections of one address do together. Beyond it the connections of the address
// that do more of the same than a few are ended, those that are made anew as well. Thread-safe.
class AddressAccount {
 public:
  using Moment = std::chrono::steady_clock::time_point;
  static constexpr uint32_t kFramesASecond = 2048;  // that are no calls and ask for work
  static constexpr uint32_t kFramesAtOnce = 2 * kFramesASecond;
  static constexpr uint32_t kMostOwed = 8 * kFramesASecond;
  // Of calls that are given up though they were not at once, by clients that have fewer answers:
  // each costs as much as one that is answered.
  static constexpr uint32_t kGivenUpASecond = 512, kGivenUpAtOnce = 8 * kGivenUpASecond;

  // `most_calls`: whose clients may still send, of all its connections. `unanswered`: of all
  // addresses, half of which one may have; none: without limit.
  explicit AddressAccount(int64_t most_calls, std::shared_ptr<Unanswered> unanswered = nullptr)
      : most_calls_(most_calls), unanswered_(std::move(unanswered)) {}

  // A frame came that is no call, and asks for the work of so many; false: too many.
  bool take_frame(uint32_t weight, Moment now) {
    const std::scoped_lock lock(mutex_);
    return frames_.take(weight, time_of(now));
  }
  // A call was given up; false: too many.
  bool take_given_up(Moment now) {
    const std::scoped_lock lock(mutex_);
    return given_up_.take(1, time_of(now));
  }
  // Calls, or requests of streams, were for nothing, which cost so many frames' work: what its
  // frames may not bear it owes, and is crowded until that is paid.
  void waste(uint64_t weight, Moment now) {
    const std::scoped_lock lock(mutex_);
    const Time at = time_of(now);
    frames_.take_anyway(std::min<double>(weight, frames_.left(at) + kMostOwed), at);
    if (frames_.left(at) >= 0) return;
    const std::chrono::duration<double> to_pay(-frames_.left(at) / kFramesASecond);
    crowded_until_ = now + std::chrono::duration_cast<Moment::duration>(to_pay);
  }
  // Whether it may be forgotten while it has no connection.
  bool is_quiet(Moment now) {
    const std::scoped_lock lock(mutex_);
    const Time at = time_of(now);
    return frames_.is_full(at) && given_up_.is_full(at) && calls_ == 0;
  }
  void add_calls(int64_t calls) { calls_.fetch_add(calls, std::memory_order_relaxed); }
  void add_asked(int64_t calls) {
    if (unanswered_ == nullptr) return;
    unanswered_->calls.fetch_add(calls, std::memory_order_relaxed);
    const int64_t before = asked_.fetch_add(calls, std::memory_order_relaxed);
    const int has_some = (before + calls > 0 ? 1 : 0) - (before > 0 ? 1 : 0);
    if (has_some != 0) unanswered_->addresses.fetch_add(has_some, std::memory_order_relaxed);
  }
  // Whether it has more calls that are not answered than half of what all may, or all have more
  // than they may, and it more than an equal share of that.
  bool is_full() const {
    if (unanswered_ == nullptr) return false;
    const int64_t own = asked_.load(std::memory_order_relaxed), most = unanswered_->most;
    return 2 * own > most || (unanswered_->calls.load(std::memory_order_relaxed) > most &&
                              own * unanswered_->addresses.load(std::memory_order_relaxed) > most);
  }
  // Asks for the time only where it has ever owed something.
  template <class Clock>
  bool is_crowded(Clock now) const {
    if (calls_.load(std::memory_order_relaxed) > most_calls_) return true;
    const Moment until = crowded_until_.load(std::memory_order_relaxed);
    return until != Moment() && now() < until;
  }

 private:
  static Time time_of(Moment now) {
    return Time::from_nanos(std::chrono::nanoseconds(now.time_since_epoch()).count());
  }

  const int64_t most_calls_;
  const std::shared_ptr<Unanswered> unanswered_;
  std::mutex mutex_;
  Allowance frames_{kFramesAtOnce, kFramesASecond}, given_up_{kGivenUpAtOnce, kGivenUpASecond};
  std::atomic<int64_t> calls_ = 0, asked_ = 0;
  std::atomic<Moment> crowded_until_ = Moment();
};

}  // namespace fermata::serve
