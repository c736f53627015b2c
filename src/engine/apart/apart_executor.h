#pragma once

#include <memory>

#include "engine/execute/executor.h"

namespace fermata::engine {

// Executors whose models run in processes of their own: one for each model and every
// `workers.per_process` workers. INVALID_ARGUMENT where such workers cannot be had here.
absl::StatusOr<std::unique_ptr<ExecutorFactory>> make_apart_executors(const WorkerOptions& options,
                                                                      uint32_t type);

// As make_executors(), in processes of their own where the options say so.
absl::StatusOr<std::unique_ptr<ExecutorFactory>> make_workers(const WorkerOptions& options,
                                                              uint32_t type = 0);

// Whether models can be in processes of their own here, where `options` want them there: else what
// is missing, and how to do without. Blocks for a process that tries it.
absl::Status check_isolation(const WorkerOptions& options);

// For `count` models beside the workers, whatever they run: in one process of the first type of
// worker, where workers' models are in processes of their own; else null.
std::unique_ptr<ExecutorFactory> make_helpers(const WorkerOptions& options, uint32_t count);

}  // namespace fermata::engine
