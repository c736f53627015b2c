#pragma once

#include <memory>

#include "absl/status/status.h"
#include "engine/execute/backend.h"

namespace fermata::engine {

// OpenVINO as a Backend, on processors. Each worker prepares a variant for itself, since a prepared
// network runs one batch at a time; they share its file, which is mapped.
absl::Status probe_openvino(const WorkerType& type);
std::unique_ptr<ModelRunners> make_openvino_runners(const WorkerType& type);

}  // namespace fermata::engine
