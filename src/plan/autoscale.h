#pragma once

#include <cstdint>

namespace fermata::plan {

// What a pool reports of a window of time.
struct PoolUse {
  uint32_t workers = 0;
  double bad_rate = 0;       // late or dropped, of the requests of a window, in [0, 1]
  double idle_fraction = 0;  // of the workers' time in that window, in [0, 1]
};

// How many workers to add, or as a negative number to give back (Symphony,
// section 4.4): a pool of N that fails a share r of its requests lacks
// N*r/(1-r) workers; one that idles a share f of the time has N*f too many.
// Rounds up what is added (9 N at most) and down what is given back; at least
// one worker stays. Pure.
int64_t workers_to_add(const PoolUse& use, double bad_rate_threshold = 0.01);

}  // namespace fermata::plan
