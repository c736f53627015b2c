#pragma once

#include <cstdint>

namespace fermata::plan {

// What a pool reports of a window of time.
struct PoolUse {
  uint32_t workers = 0;
  // Late or dropped, of the requests of a window that a free worker could have saved, in [0, 1].
  double bad_rate = 0;
  double idle_fraction = 0;    // of the workers' time in that window, in [0, 1]
  double infeasible_rate = 0;  // of all requests of the window, that nobody could have saved
};

// How many workers to add, or as a negative number to give back (Symphony,
// section 4.4): a pool of N that fails a share r of its requests lacks
// N*r/(1-r) workers; one that idles a share f of the time has N*f too many.
// Rounds up what is added (9 N at most) and down what is given back; at least
// one worker stays. A pool that fails requests while it idles for more than half of the time lacks
// no workers: it keeps what it has. So does one that could save hardly anybody, with any number of
// workers: its profiles may be wrong, or its machine slow. Pure.
int64_t workers_to_add(const PoolUse& use, double bad_rate_threshold = 0.01);

// How many workers to have, window after window, so that a rise and a fall do not alternate: what
// is lacking is added at once; half of what a calm time has to spare is given back after kCalm
// windows in a row that each had some to spare. What only a plan had added, and no plan
// asks for any longer, is given back as soon as a window has it to spare, since plans look ahead.
class PoolSize {
 public:
  static constexpr uint32_t kCalm = 3;
  // 1 <= least <= most.
  PoolSize(uint32_t least, uint32_t most) : least_(least), most_(most), size_(least) {}
  uint32_t size() const { return size_; }
  // `to_add` as workers_to_add() of the window that closed; a plan asks for `planned` at least.
  uint32_t next(int64_t to_add, uint32_t planned = 0);

 private:
  const uint32_t least_, most_;
  uint32_t size_, calm_ = 0;
  int64_t spare_ = 0;    // the least of the calm windows
  int64_t by_plan_ = 0;  // workers that only a plan has added
};

}  // namespace fermata::plan
