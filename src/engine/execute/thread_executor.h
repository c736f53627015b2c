#pragma once

#include <memory>

#include "engine/execute/executor.h"

namespace fermata::engine {

// Executors that run models on threads of this process, by the backends that read them.
// INVALID_ARGUMENT where such workers cannot be had here.
absl::StatusOr<std::unique_ptr<ExecutorFactory>> make_thread_executors(const WorkerType& type);

}  // namespace fermata::engine
