#pragma once

#include "policy/pool/view.h"

namespace fermata::policy {

// The account of worker time: how many items of other keys are late when the last worker that is
// free for them takes a batch of `key` at `start` and no worker is free before `until`: those that
// wait and must start before, and those that are expected to come and cannot wait so long.
// O(keys).
double made_late(const PoolView& view, KeyId key, uint32_t type, Time start, Time until);

// Until when a worker that is granted to `key` must be free again for those who are expected to
// come to other keys, whose deadlines a longer run would cost; infinite where another worker of its
// type is free by then, or nobody is expected. O(keys + workers).
Time needed_by(const PoolView& view, KeyId key, WorkerId worker, Time now);

}  // namespace fermata::policy
