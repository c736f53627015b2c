#pragma once

#include <memory>

#include "engine/execute/executor.h"
#include "engine/options.h"

namespace fermata::engine {

// A worker whose memory does not hold every variant (SneakPeek): load() only makes one
// known, run() loads it first where it is not there, and the least recently used go until it
// fits, just as plan/variants/residency.h plans it. What load_ahead() asks for is loaded on a
// background thread, while what is there runs. `inner` runs what is loaded. Where nothing is really
// loaded (an emulated worker) loading takes as long as the profile says.
std::shared_ptr<Executor> make_resident_executor(std::shared_ptr<Executor> inner,
                                                 const WorkerOptions& options, uint32_t type);

}  // namespace fermata::engine
