#pragma once

#include <atomic>
#include <cstdint>

namespace fermata::serve {

// What a front end counts itself: messages that never become a request of the
// engine, which has the rest of the numbers.
struct FrontEndCounters {
  std::atomic<uint64_t> requests = 0;  // infer messages received
  std::atomic<uint64_t> rejected = 0;  // those that could not be decoded
  std::atomic<uint64_t> running = 0;   // those without a reply yet

  void begin() {
    requests.fetch_add(1, std::memory_order_relaxed);
    running.fetch_add(1, std::memory_order_relaxed);
  }
  void reject() { rejected.fetch_add(1, std::memory_order_relaxed); }
  void end() { running.fetch_sub(1, std::memory_order_release); }
};

}  // namespace fermata::serve
