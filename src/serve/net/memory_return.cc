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

constexpr int kMapped = 4 << 20, kUntrimmed = 16 << 20;  // bytes

// Bytes of the process that the allocator has not given to anybody: what it keeps, and what it
// never had, as the program itself. It may keep more as soon as something is freed, though the
// process does not grow. 0: the system does not tell.
uint64_t unused_bytes() {
  uint64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  resident *= static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const auto about = mallinfo2();
  return resident - std::min<uint64_t>(resident, about.uordblks + about.hblkhd);
}

}  // namespace

void bound_kept_memory() {
  mallopt(M_MMAP_THRESHOLD, kMapped);
  mallopt(M_TRIM_THRESHOLD, kUntrimmed);
}

bool MemoryReturn::is_due(uint64_t unused) {
  calm_ = clients_->used() > clients_->limit() / kPartOfCalm ? 0 : calm_ + 1;
  settled_ = settled_ == 0 ? unused : std::min(settled_, unused);
  if (calm_ < kCalmLooks) return false;
  return unused > settled_ + std::max(settled_ / kPartOfGrowth, kLeastGrowth);
}

void MemoryReturn::look() {
  if (!is_due(unused_bytes())) return;
  malloc_trim(0);
  settle(unused_bytes());
}

}  // namespace fermata::serve
