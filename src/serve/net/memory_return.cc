#include "serve/net/memory_return.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <future>
#include <system_error>
#include <thread>
#include <vector>

namespace fermata::serve {
namespace {

constexpr uint64_t kPartOfCalm = 16;  // of what clients may hold
constexpr uint64_t kPartOfGrowth = 20, kLeastGrowth = uint64_t{8} << 20;

// Bytes. Trimmed sooner, messages of a megabyte would take twice the processor's time.
constexpr int kMapped = 4 << 20, kUntrimmed = 16 << 20;
constexpr int kVisit = 256 << 10;

unsigned arenas() { return std::max(8u, std::thread::hardware_concurrency()); }

// Without what it shares with others, as its files. 0: the system does not tell.
uint64_t own_memory() {
  uint64_t pages = 0, resident = 0, shared = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident >> shared;
  return (resident - std::min(resident, shared)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// malloc_trim() leaves what is free at the end of each arena but the first, which goes when
// something large of that arena is freed. The library deals its arenas out to threads in turn, so
// that as many threads as there are arenas have one each.
void trim_ends() {
  mallopt(M_TRIM_THRESHOLD, kVisit / 2);
  std::promise<void> all_have;
  const std::shared_future<void> free_it = all_have.get_future().share();
  std::vector<std::thread> visitors;
  try {
    while (visitors.size() < arenas()) {
      visitors.emplace_back([free_it] {
        void* volatile const visit = malloc(kVisit);
        free_it.wait();
        free(visit);
      });
    }
  } catch (const std::system_error&) {  // no more threads may be made now
  }
  all_have.set_value();
  for (std::thread& visitor : visitors) visitor.join();
  mallopt(M_TRIM_THRESHOLD, kUntrimmed);
}

}  // namespace

void bound_kept_memory() {
  mallopt(M_MMAP_THRESHOLD, kMapped);
  mallopt(M_TRIM_THRESHOLD, kUntrimmed);
  mallopt(M_ARENA_MAX, static_cast<int>(arenas()));
}

bool MemoryReturn::is_due(uint64_t own) {
  least_ = least_ == 0 ? own : std::min(least_, own);
  const bool is_calm = clients_->used() <= clients_->limit() / kPartOfCalm;
  calm_ = is_calm ? calm_ + 1 : 0;
  if (!is_calm || own > last_ + growth()) wait_ = soonest_;
  if (calm_ < wait_ || own <= least_ + growth()) return false;
  calm_ = 0;
  last_ = own;
  return true;
}

void MemoryReturn::gave(uint64_t left, Took took) {
  soonest_ = std::max<int64_t>(kCalmLooks, kLooksOfTime * took / every_);
  const bool came = left + growth() < last_;
  wait_ = came ? soonest_ : std::max(soonest_, std::min(2 * wait_, kMostLooks));
  last_ = left;
}

uint64_t MemoryReturn::growth() const { return std::max(least_ / kPartOfGrowth, kLeastGrowth); }

void MemoryReturn::look() {
  if (!is_due(own_memory())) return;
  const auto start = std::chrono::steady_clock::now();
  malloc_trim(0);
  trim_ends();
  gave(own_memory(), std::chrono::steady_clock::now() - start);
}

}  // namespace fermata::serve
