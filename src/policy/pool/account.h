#pragma once

#include <array>

#include "policy/pool/view.h"
#include "policy/rules.h"

namespace fermata::policy {

// Of the default's Rules, which work without deadlines and services of several models follow under
// all rules; docs/trials.md says why they are these.
inline constexpr double kOneIn = 1000;        // burst
inline constexpr double kRunCap = 3;          // run_cap
inline constexpr double kNegligible = 0.005;  // negligible

// Whether more may still come: until a second after the last, or three of their gaps.
bool has_come_lately(const Outlook& outlook, Time now);

// The account of worker time: how many items of other keys are late when a batch of `key` starts
// then, which leaves so many workers free for them, and no other is free before `until`: those that
// wait and must start before, and those that are expected to come and cannot wait so long. With
// workers left, as many as find all of these busy (Erlang's loss formula). O(log keys) for each key
// that has such items, + left.
double made_late(const PoolView& view, KeyId key, uint32_t type, Time start, Time until,
                 uint32_t left);

// Work that comes, in worker time.
class Work {
 public:
  // `variation` of items that come in clumps; what a deadline has no time for is never served.
  void add(double rate, double busy, double variation, double deadline_s);

  // What one in so many of those that come, if they can wait for as long as `slack`, will find
  // waiting before it, in time until one of so many workers is free. No run counts for longer than
  // run_cap times that, if any: one of two seconds does not let those start at once who have 40 ms.
  Duration burst(double workers, Duration slack, double one_in, double run_cap) const;

  double busy() const { return busy_; }  // workers that it keeps busy

 private:
  // By the power of two seconds that they run, from 2^-32 on.
  struct Runs {
    double rate = 0;      // clumps a second
    double variance = 0;  // of the worker time that comes in a second
  };
  std::array<Runs, 64> runs_;
  double busy_ = 0;
  double clumped_ = 0;  // variance of how many workers it would keep busy, if there were enough
};

// How much of the pool those with a deadline want. Workers of all types count alike, and time as it
// is on the slowest type that may run a key: a pool whose fast workers do most looks busier than it
// is, and one of which a key may use a part less busy for that key.
struct Load {
  // 1 where batches of their target sizes keep every worker busy, or where each of them alone does.
  double batched = 0, unbatched = 0;
  // Of a burst most come at once, and then nobody who could join, so each counts as it is alone, as
  // far as the workers bear that, and else between that and its share of a batch of the target
  // size, so that they would be busy for Rules::busiest of the time.
  Work work;
  double workers = 1;
  Duration burst(Duration slack, const Rules& rules) const {
    return work.burst(workers, slack, rules.burst, rules.run_cap);
  }
};
// O(keys).
Load load(const PoolView& view, Time now, const Rules& rules);

// What a second of one worker more, of the type that takes longest, is worth to the other key to
// which it is worth most, in items on time or their utility: a part of what that loses without it.
// O(keys).
double price(const PoolView& view, KeyId key, Time now);

// When another worker as fast as it comes free. O(workers).
Time next_free(const PoolView& view, WorkerId worker);

// Until when a worker that is granted to `key` must be free again for those who are expected to
// come to other keys, whose deadlines a longer run would cost; infinite where another worker as
// fast is free by then, or nobody is expected. O(keys + workers).
Time needed_by(const PoolView& view, KeyId key, WorkerId worker, Time now);

// The same for a batch that nobody waits for: infinite where the workers that are free by then
// leave them all but no wait, and else shorter by what they will take themselves, in threefold
// numbers. O(keys + workers).
Time free_again_by(const PoolView& view, KeyId key, WorkerId worker, Time now);

// Whether the others as fast as it that are free in time bear what is expected of other keys
// without this worker: one in a thousand waits for no longer than it can. So does the only one that
// may run the key, or nothing so long would ever run. O(keys + workers).
bool others_bear(const PoolView& view, KeyId key, WorkerId worker, Time now);

}  // namespace fermata::policy
