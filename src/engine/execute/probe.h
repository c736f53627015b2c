#pragma once

#include <iosfwd>
#include <string>

#include "absl/status/statusor.h"
#include "engine/execute/child.h"
#include "model/model_config.h"

namespace fermata::engine {

// A model file is opened in a child process before the server opens it, so that a
// hostile one cannot take the server down. The child is `program probe-model FILE MEMORY_MB`.
// Blocks until the child ends, at most `limits.time`. INVALID_ARGUMENT says whether the file
// is no model, crashed the reader, or kept it busy for too long.
absl::StatusOr<FileSignature> probe_model(const std::string& program, const std::string& file,
                                          const TrialLimits& limits);

// The child's side: limits its own memory, time and files, opens the file and prints
// what it found as JSON.
absl::Status print_signature(const std::string& file, double memory_mb, std::ostream& out);

}  // namespace fermata::engine
