#pragma once

#include <cstdint>
#include <optional>

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

// Workers that all requests of the window would have kept busy, also those that it failed.
double load_of(const PoolUse& use);

// How many workers to have, window after window, so that a rise and a fall do not alternate: what
// is lacking is added at once; half of what a calm time has to spare is given back after kCalm
// windows in a row that each had some to spare. What only a plan had added, and no plan
// asks for any longer, is given back as soon as a window has it to spare, since plans look ahead.
// A size that has lacked workers is not gone back to before the load has fallen by a fifth, so that
// under a steady load the size stops changing.
class PoolSize {
 public:
  static constexpr uint32_t kCalm = 3;
  static constexpr double kFallen = 0.8;
  // 1 <= least <= most, and `start` between them.
  PoolSize(uint32_t least, uint32_t most, uint32_t start)
      : least_(least), most_(most), size_(start) {}
  PoolSize(uint32_t least, uint32_t most) : PoolSize(least, most, least) {}
  uint32_t size() const { return size_; }
  // Of a window that has closed.
  struct Window {
    int64_t to_add = 0;             // as workers_to_add() says
    uint32_t planned = 0;           // a plan asks for so many at least
    double load = 0;                // as load_of() says
    std::optional<uint32_t> there;  // in it, where that is not size()
  };
  uint32_t next(const Window& window);

 private:
  const uint32_t least_, most_;
  uint32_t size_, calm_ = 0;
  int64_t spare_ = 0;    // the least of the calm windows
  int64_t by_plan_ = 0;  // workers that only a plan has added
  struct {
    uint32_t size = 0;
    double load = 0;
  } lacked_;  // of the last window that lacked workers
};

// The same of workers that somebody else starts and stops (an autoscaler of Kubernetes), so that
// they come and go some windows after they are asked for, if at all. What is asked for is a step
// that such an autoscaler takes: one that differs from what is there by up to a tenth it ignores.
class WantedWorkers {
 public:
  // At least one is wanted, and `most` at most. `there`: workers at the start, which are kept.
  WantedWorkers(uint32_t most, uint32_t there);
  // `use` of the window that closed, of the workers that were there.
  uint32_t next(const PoolUse& use);

 private:
  PoolSize size_;
};

}  // namespace fermata::plan
