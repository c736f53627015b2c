#include "engine/host/room.h"

#include <algorithm>
#include <chrono>

namespace fermata::engine {
namespace {

constexpr double kRounding = 1e-9;  // relative, as the planner's

}  // namespace

double Room::sum(Memory memory, bool staying_only) const {
  double resident = memory.static_mb, largest = memory.dynamic_mb;
  for (const auto& [id, tenant] : tenants_) {
    if (staying_only && tenant.leaving) continue;
    resident += tenant.memory.static_mb;
    largest = std::max(largest, tenant.memory.dynamic_mb);
  }
  return resident + largest;
}

bool Room::fits(VariantId id, Memory memory, bool staying_only) const {
  const auto it = tenants_.find(id);
  const bool there = it != tenants_.end() && !(staying_only && it->second.leaving);
  return !there && sum(memory, staying_only) <= limit_mb_ * (1 + kRounding);
}

bool Room::take(VariantId id, Memory memory, Duration patience) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::nanoseconds(patience.nanos()),
                    [&] { return closed_ || fits(id, memory, false) || !fits(id, memory, true); });
  if (closed_ || !fits(id, memory, false)) return false;
  tenants_[id] = {memory};
  return true;
}

void Room::leaving(VariantId id) {
  const std::lock_guard lock(mutex_);
  if (const auto it = tenants_.find(id); it != tenants_.end()) it->second.leaving = true;
}

void Room::left(VariantId id) {
  const std::lock_guard lock(mutex_);
  tenants_.erase(id);
  changed_.notify_all();
}

void Room::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

double Room::used_mb() const {
  const std::lock_guard lock(mutex_);
  return sum({}, false);
}

}  // namespace fermata::engine
