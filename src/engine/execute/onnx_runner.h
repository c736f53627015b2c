#pragma once

#include <memory>

#include "absl/status/status.h"
#include "engine/execute/backend.h"

namespace fermata::engine {

// ONNX Runtime as a Backend. With one thread a worker, all of them share a variant's session; with
// more, each has its own.
absl::Status probe_onnx(const WorkerType& type);
std::unique_ptr<ModelRunners> make_onnx_runners(const WorkerType& type);

}  // namespace fermata::engine
