#pragma once

#include <memory>

#include "policy/batcher.h"

namespace fermata::policy {

// The default. `deferred`, but a batch wants to start a margin before its latest
// start: the time that offers of the pool lately waited for a worker. With idle
// workers the margin vanishes and batches grow as large as they can; in a pool
// that is busy it makes up for the queue at the workers.
std::unique_ptr<Batcher> make_fermata(KeyId key, KeyInfo info, DelayBound delay);

}  // namespace fermata::policy
