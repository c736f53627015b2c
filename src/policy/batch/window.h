#pragma once

#include <optional>

#include "estimate/rate.h"
#include "policy/batch/batch_times.h"
#include "policy/batch/task_queue.h"

namespace fermata::policy {

// What to do with the queue at some moment: refuse its first `drop` tasks, run
// the `take` after them as one batch.
struct Cut {
  size_t drop = 0, take = 0;
};

// The batch size to hope for: the largest b with ℓ(b)·(1 + 1/n) <= budget, where
// n = λ·ℓ(b)/b is how many workers the key keeps busy (Symphony eq. 2 and 3; for
// n <= 1 the wait for the b-th item, b/λ, takes the place of ℓ(b)/n); before λ is
// known, what fits in half the budget. At least 1. O(max_batch).
uint32_t target_size(const BatchTimes& times, const estimate::RateMeter& rate, Duration budget);

// The fixed cost β of a batch: that of the line through ℓ(1) and ℓ(target), a target below 2
// taken for 2.
Duration fixed_cost(const BatchTimes& times, uint32_t target);

// Where nobody has to give way: all that waits ends by the head's deadline, and as much of it as a
// batch holds runs.
inline std::optional<Cut> whole_cut(const TaskQueue& queue, const BatchTimes& times,
                                    const Moment& m) {
  const uint64_t all = queue.items_from(0);
  if (times.finish(all, m) > queue[0].deadline) [[unlikely]]
    return std::nullopt;
  return Cut{0, all <= times.max_batch() ? queue.size() : queue.most_within(0, times.max_batch())};
}

// Which tasks to refuse when not all can make it: those that stand in the way of
// a batch of good size, even if some of them alone could still be served. Heads
// are passed over until the whole rest ends by its own head's deadline; of those
// passed over, the ones that cannot end in a batch of min(target, rest) are
// dropped, and the batch is what then ends by the first survivor's deadline.
// This is what keeps a backlog from being served in batches of one. O(log n).
Cut window_cut(const TaskQueue& queue, const BatchTimes& times, uint32_t target, const Moment& m);

// Symphony 4.3 to the letter: refuse only what could not even end alone, and run
// the largest batch that ends by the head's deadline. O(log n) besides the drops.
Cut prefix_cut(const TaskQueue& queue, const BatchTimes& times, const Moment& m);

}  // namespace fermata::policy
