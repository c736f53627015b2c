#pragma once

#include <iosfwd>
#include <string>

#include "absl/status/statusor.h"
#include "base/time.h"
#include "model/model_config.h"

namespace fermata::engine {

// A model file is opened in a child process before the server opens it, so that a
// hostile one cannot take the server down. The child is `program probe-model FILE`.
// Blocks until the child ends, at most `limit`. INVALID_ARGUMENT says whether the file
// is no model, crashed the reader, or kept it busy for too long.
absl::StatusOr<FileSignature> probe_model(const std::string& program, const std::string& file,
                                          Duration limit);

// The child's side: limits its own memory, time and files, opens the file and prints
// what it found as JSON.
absl::Status print_signature(const std::string& file, std::ostream& out);

}  // namespace fermata::engine
