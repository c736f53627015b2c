#pragma once

#include <memory>

#include "engine/execute/executor.h"

namespace fermata::engine {

// Executors that run ONNX models on threads of their own. With one thread a worker,
// all workers share a variant's session; with more, each has its own.
// INVALID_ARGUMENT where the library lacks the provider.
absl::StatusOr<std::unique_ptr<ExecutorFactory>> make_onnx_executors(const WorkerType& type);

}  // namespace fermata::engine
