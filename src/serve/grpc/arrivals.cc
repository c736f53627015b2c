#include "serve/grpc/arrivals.h"

#include <tuple>

namespace fermata::serve {
namespace {

constexpr double kSlowS = 1;       // for the rest of what is held to come
constexpr uint64_t kFarBelow = 4;  // an equal share by this factor: to end these frees too little

}  // namespace

void Arrivals::count(Holder& holder, uint64_t bytes) {
  if (bytes > holder.bytes) budget_.take_anyway(bytes - holder.bytes);
  if (bytes < holder.bytes) budget_.give_back(holder.bytes - bytes);
  holder.bytes = bytes;
}

void Arrivals::set(uint64_t connection, uint64_t bytes, uint64_t more, Moment now) {
  if (bytes < kFrom) return forget(connection);
  uint64_t ended = 0;
  {
    const std::scoped_lock lock(mutex_);
    const auto [entry, is_new] = holders_.try_emplace(connection);
    Holder& holder = entry->second;
    if (is_new) holder.pace.start(now);
    holder.pace.add(more, now);
    count(holder, bytes);
    if (budget_.used() > limit_) {
      ended = find_slowest(now);
      const auto slowest = holders_.find(ended);
      count(slowest->second, 0);
      holders_.erase(slowest);
    }
  }
  if (ended != 0) end_(ended);
}

void Arrivals::forget(uint64_t connection) {
  const std::scoped_lock lock(mutex_);
  const auto found = holders_.find(connection);
  if (found == holders_.end()) return;
  count(found->second, 0);
  holders_.erase(found);
}

// O(holders), of which there is at least one.
uint64_t Arrivals::find_slowest(Moment now) const {
  uint64_t slowest = 0;
  std::tuple<double, uint64_t> most(-1, 0);
  for (const auto& [connection, holder] : holders_) {
    if (holder.bytes * holders_.size() * kFarBelow < budget_.used()) continue;
    const double left = holder.pace.time_for(holder.bytes, now).count();
    const std::tuple<double, uint64_t> here(left > kSlowS ? left : 0, holder.bytes);
    if (here <= most) continue;
    most = here;
    slowest = connection;
  }
  return slowest;
}

}  // namespace fermata::serve
