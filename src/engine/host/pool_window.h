#pragma once

#include <cstdint>
#include <vector>

#include "base/time.h"
#include "engine/snapshot.h"
#include "plan/autoscale.h"

namespace fermata::engine {

// What a pool has counted by one moment.
struct PoolTotals {
  Time at;
  uint64_t on_time = 0;
  // Late, or refused for the queue or for a deadline that a free worker could have met.
  uint64_t bad = 0;
  Duration busy;                      // of all workers together
  uint64_t refused = 0, lacking = 0;  // for the deadline, and those of them that count as bad
  struct Type {
    uint32_t workers = 0;  // that serve
    Duration busy;
  };
  std::vector<Type> types = {};  // of EngineSnapshot::worker_types

  uint32_t workers() const;  // that serve, of all types
};

PoolTotals totals_of(const EngineSnapshot& snapshot);

// The autoscaling signal of the window between two moments, from < to. What
// clients got wrong or took back, and what a model failed on, says nothing of the
// workers and does not count. Pure.
AutoscaleSignal signal_between(const PoolTotals& from, const PoolTotals& to, uint32_t workers);

// The same of each type's workers alone: what all requests are late by counts for each, and the
// idle time that is its own.
std::vector<plan::PoolUse> uses_between(const PoolTotals& from, const PoolTotals& to);

}  // namespace fermata::engine
