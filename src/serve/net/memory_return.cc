#include "serve/net/memory_return.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace fermata::serve {
namespace {

constexpr uint64_t kPartOfCalm = 16;  // of what clients may hold
constexpr int kCalmLooks = 3;
constexpr uint64_t kPartOfGrowth = 20, kLeastGrowth = uint64_t{8} << 20;

// Bytes. 0: the system does not tell.
uint64_t resident_bytes() {
  uint64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

bool MemoryReturn::is_due(uint64_t resident) {
  calm_ = clients_->used() > clients_->limit() / kPartOfCalm ? 0 : calm_ + 1;
  settled_ = settled_ == 0 ? resident : std::min(settled_, resident);
  if (calm_ < kCalmLooks) return false;
  return resident > settled_ + std::max(settled_ / kPartOfGrowth, kLeastGrowth);
}

void MemoryReturn::look() {
  if (!is_due(resident_bytes())) return;
  malloc_trim(0);
  settle(resident_bytes());
}

}  // namespace fermata::serve
