#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

namespace fermata::engine {

// An immutable value that is read on every request and rarely replaced. A read costs one
// atomic load and a shared count; only the first read of a thread after a change locks.
// A thread that reads no more keeps its last value alive until it ends.
template <class T>
class Published {
 public:
  explicit Published(std::shared_ptr<const T> value) : value_(std::move(value)) {}

  void publish(std::shared_ptr<const T> value) {
    const std::lock_guard lock(mutex_);
    value_ = std::move(value);
    stamp_.store(next_stamp().fetch_add(1) + 1, std::memory_order_release);
  }

  std::shared_ptr<const T> read() const {
    thread_local Seen seen;
    if (const uint64_t stamp = stamp_.load(std::memory_order_acquire); seen.stamp != stamp) {
      const std::lock_guard lock(mutex_);
      seen = {stamp_.load(std::memory_order_relaxed), value_};
    }
    return seen.value;
  }

 private:
  struct Seen {
    uint64_t stamp = 0;
    std::shared_ptr<const T> value;
  };
  // Stamps are unique among all objects of the type, so that a thread which reads
  // two of them never takes one for the other.
  static std::atomic<uint64_t>& next_stamp() {
    static std::atomic<uint64_t> stamp{0};
    return stamp;
  }

  mutable std::mutex mutex_;
  std::shared_ptr<const T> value_;
  std::atomic<uint64_t> stamp_{next_stamp().fetch_add(1) + 1};
};

}  // namespace fermata::engine
