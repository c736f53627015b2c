#pragma once

#include <memory>

#include "policy/batcher.h"

namespace fermata::policy {

// Policies that never leave a worker idle while a task waits.

// `deferred` without the wait: any batch may start at once, drops by window, the
// earliest latest start goes first.
std::unique_ptr<Batcher> make_eager(KeyId key, KeyInfo info, DelayBound delay);

// After Clockwork (Gujarati et al., OSDI 2020): the batch with the least slack
// goes first; only what cannot end even alone is refused.
std::unique_ptr<Batcher> make_clockwork(KeyId key, KeyInfo info, DelayBound delay);

// The earliest deadline goes first, however long its batch takes.
std::unique_ptr<Batcher> make_edf(KeyId key, KeyInfo info, DelayBound delay);

}  // namespace fermata::policy
