#pragma once

#include "policy/pool/view.h"

namespace fermata::policy {

// Items made late, by item of a batch, that nobody leaves time for. docs/policies.md says why.
inline constexpr double kNegligible = 0.005;

// Whether more may still come: until a second after the last, or three of their gaps.
bool has_come_lately(const Outlook& outlook, Time now);

// The account of worker time: how many items of other keys are late when a batch of `key` starts
// then, which leaves so many workers free for them, and no other is free before `until`: those that
// wait and must start before, and those that are expected to come and cannot wait so long. With
// workers left, as many as find all of these busy (Erlang's loss formula). O(log keys) for each key
// that has such items, + left.
double made_late(const PoolView& view, KeyId key, uint32_t type, Time start, Time until,
                 uint32_t left);

// How much of the pool those with a deadline want: 1 where batches of their target sizes keep every
// worker busy, or where each of them alone does. O(keys).
struct Load {
  double batched = 0, singly = 0;
};
Load load(const PoolView& view, Time now);

// What a second of one worker more, of the type that takes longest, is worth to the other key to
// which it is worth most, in items on time or their utility: a part of what that loses without it.
// O(keys).
double price(const PoolView& view, KeyId key, Time now);

// When another worker of its type comes free. O(workers).
Time next_free(const PoolView& view, WorkerId worker);

// Until when a worker that is granted to `key` must be free again for those who are expected to
// come to other keys, whose deadlines a longer run would cost; infinite where another worker of its
// type is free by then, or nobody is expected. O(keys + workers).
Time needed_by(const PoolView& view, KeyId key, WorkerId worker, Time now);

// The same for a batch that nobody waits for, whoever comes in threefold numbers: infinite where
// three times the workers that they lately kept busy are free by then, and else shorter by what
// they will take themselves. O(keys + workers).
Time free_again_by(const PoolView& view, KeyId key, WorkerId worker, Time now);

}  // namespace fermata::policy
