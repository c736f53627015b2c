#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "base/byte_budget.h"

namespace fermata::serve {

// Large buffers go back to the system at once, and of the rest the allocator keeps little. For the
// whole process.
void bound_kept_memory();

// Gives the system back what the allocator keeps of a load that is over: once clients have held
// little for a few looks, and it keeps more than after the last time.
class MemoryReturn {
 public:
  explicit MemoryReturn(std::shared_ptr<ByteBudget> clients) : clients_(std::move(clients)) {}
  // Once every second or two, on one thread. May take some ten milliseconds where there is much.
  void look();
  // With the memory of the process that nobody uses, as far as is known; true: it is time.
  bool is_due(uint64_t unused);
  void settle(uint64_t unused) { settled_ = unused; }

 private:
  const std::shared_ptr<ByteBudget> clients_;  // what they hold
  uint64_t settled_ = 0;                       // what was left when there was little to give back
  int calm_ = 0;                               // looks in a row
};

}  // namespace fermata::serve
