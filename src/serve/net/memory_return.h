#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "base/byte_budget.h"

namespace fermata::serve {

// Gives the system back what the allocator keeps of a load that is over: once clients have held
// little for a few looks, and the process has grown since the last time.
class MemoryReturn {
 public:
  explicit MemoryReturn(std::shared_ptr<ByteBudget> clients) : clients_(std::move(clients)) {}
  // Once every second or two, on one thread. May take some ten milliseconds where there is much.
  void look();
  // With the memory of the process; true: it is time.
  bool is_due(uint64_t resident);
  void settle(uint64_t resident) { settled_ = resident; }

 private:
  const std::shared_ptr<ByteBudget> clients_;  // what they hold
  uint64_t settled_ = 0;                       // of the process, when there was little to give back
  int calm_ = 0;                               // looks in a row
};

}  // namespace fermata::serve
