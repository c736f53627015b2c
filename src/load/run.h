#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/histogram.h"
#include "load/account.h"
#include "load/spec.h"

namespace fermata::load {

struct LoadResult {
  std::vector<Account> services;  // as in the spec; requests scheduled in the counted window
  Histogram lag;                  // of sends behind their schedule, in that window
  uint64_t sent = 0;              // all of them, warm-up included
  size_t connections = 0;         // open at the same time, at most
};

// Is told the share of the schedule that has passed and what is going on.
using ProgressFunction = std::function<void(double share, std::string_view note)>;

// Sends the load on time, whatever the answers do (open loop), and waits until
// every request has ended. Blocks for the warm-up, the duration, and up to the
// drain time; uses the calling thread and one more. The spec is complete.
// UNAVAILABLE: no server answers at the address.
absl::StatusOr<LoadResult> run_load(const LoadSpec& spec, const ProgressFunction& progress);

}  // namespace fermata::load
