#pragma once

#include "policy/pool/view.h"

namespace fermata::policy {

// The account of worker time: how many items of other keys are late when the last worker that is
// free for them takes a batch of `key` at `start` and no worker is free before `until`: those that
// wait and must start before, and those that are expected to come and cannot wait so long.
// O(keys).
double made_late(const PoolView& view, KeyId key, uint32_t type, Time start, Time until);

}  // namespace fermata::policy
