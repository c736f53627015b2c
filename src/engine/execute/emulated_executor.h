#pragma once

#include <memory>

#include "engine/execute/executor.h"

namespace fermata::engine {

// Executors that wait as long as the variant's profile on this type says (its median) and
// answer zeros of the right shapes, or what executors of `inner` answer meanwhile; a run of those
// that takes longer is waited for. One timer thread serves any number.
std::unique_ptr<ExecutorFactory> make_emulated_executors(
    uint32_t worker_type, std::unique_ptr<ExecutorFactory> inner = nullptr);

}  // namespace fermata::engine
