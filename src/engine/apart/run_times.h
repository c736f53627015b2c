#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/ids.h"
#include "base/time.h"

namespace fermata::engine::apart {

// How long runs of a worker took lately, for the moment from which it pays to look whether one has
// ended. One thread's.
class RunTimes {
 public:
  struct Look {
    Time from = Time::infinite();  // none: it cannot be told well enough
    Duration most;                 // for which to look then
  };
  // Of a run that begins now.
  Look look(VariantId variant, uint32_t items, Time now) const {
    const auto known = runs_.find({variant, items});
    if (known == runs_.end()) return {};
    const Duration early = kWaking + known->second.spread * 2;
    if (early > kMostEarly) return {};
    return {now + std::max(known->second.mean - early, Duration()), early * 2};
  }

  void took(VariantId variant, uint32_t items, Duration time) {
    if (runs_.size() >= kMostKnown) runs_.clear();
    auto [run, is_new] = runs_.try_emplace({variant, items}, Run{time, time / 8});
    if (is_new) return;
    auto& [mean, spread] = run->second;
    const Duration off = time - mean;
    mean += off / 8;
    spread += (std::max(off, -off) - spread) / 8;
  }

 private:
  struct Run {
    Duration mean, spread;
  };
  static constexpr size_t kMostKnown = 4096;
  // What a thread needs to wake, and the most that is looked instead.
  static constexpr Duration kWaking = Duration::micros(35), kMostEarly = Duration::micros(80);

  absl::flat_hash_map<std::pair<VariantId, uint32_t>, Run> runs_;
};

}  // namespace fermata::engine::apart
