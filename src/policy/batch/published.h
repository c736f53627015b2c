#pragma once

#include <memory>

#include "policy/batcher.h"

namespace fermata::policy {

// Symphony 4.3. A batch is held back until its latest start, dl - ℓ(b+1): up to
// then another item can join it and the head still ends in time. Drops by window. The least slack,
// dl - ℓ(b), goes first, not the earliest latest start as in 4.3: docs/trials.md says why.
std::unique_ptr<Batcher> make_deferred(KeyId key, KeyInfo info, DelayBound delay);
// The same, but a batch of more than β·λ items may start at once: waiting for one
// more then costs more than the share of β that it saves (4.3).
std::unique_ptr<Batcher> make_deferred_beta_lambda(KeyId key, KeyInfo info, DelayBound delay);
// The same as `deferred`, but refusing only what cannot end even alone.
std::unique_ptr<Batcher> make_deferred_prefix(KeyId key, KeyInfo info, DelayBound delay);

// The others never leave a worker idle while a task waits.
// `deferred` without the wait: any batch may start at once, drops by window, the
// least slack goes first.
std::unique_ptr<Batcher> make_eager(KeyId key, KeyInfo info, DelayBound delay);
// After Clockwork (Gujarati et al., OSDI 2020): the batch with the least slack
// goes first; only what cannot end even alone is refused.
std::unique_ptr<Batcher> make_clockwork(KeyId key, KeyInfo info, DelayBound delay);
// The earliest deadline goes first, however long its batch takes.
std::unique_ptr<Batcher> make_edf(KeyId key, KeyInfo info, DelayBound delay);

}  // namespace fermata::policy
