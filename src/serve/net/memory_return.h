#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/byte_budget.h"

namespace fermata::serve {

// Large buffers go back to the system at once, and of the rest the allocator keeps little. For the
// whole process, before it has threads.
void bound_kept_memory();

// Gives the system back what the allocator keeps of a load that is over: while clients hold little
// and the process has more than it has had, first soon, then ever less often while nothing comes of
// it. What is in use the allocator tells only by a walk through all that is free, which takes as
// long as giving it back and stops others meanwhile: so nobody asks.
class MemoryReturn {
 public:
  using Took = std::chrono::nanoseconds;
  static constexpr int64_t kCalmLooks = 3, kMostLooks = 16;  // between two attempts
  static constexpr int64_t kLooksOfTime = 500;  // for each look's time that an attempt takes

  // `every`: between looks.
  MemoryReturn(std::shared_ptr<ByteBudget> clients, Took every)
      : clients_(std::move(clients)), every_(every) {}
  // Every so often, on one thread. May take some ten milliseconds where there is much.
  void look();
  // With the process's own memory; true: it is time.
  bool is_due(uint64_t own);
  // What is left of it, after an attempt.
  void gave(uint64_t left, Took took);

 private:
  const std::shared_ptr<ByteBudget> clients_;  // what they hold
  const Took every_;
  uint64_t growth() const;  // worth an attempt
  uint64_t least_ = 0;      // that it has had
  uint64_t last_ = 0;       // at the last attempt
  int64_t calm_ = 0;        // looks in a row, since the last attempt
  int64_t soonest_ = kCalmLooks, wait_ = kCalmLooks;
};

}  // namespace fermata::serve
