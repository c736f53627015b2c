#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/document.h"

namespace fermata::tune {

// A file with a recording a line, as scenario_document() makes them. Where it would become longer
// than `most_bytes` it becomes FILE.1, in the place of an earlier one, and begins anew: both take
// at most twice that. Not synchronised.
class RecordFile {
 public:
  static constexpr size_t kMostBytes = size_t{128} << 20;
  explicit RecordFile(std::string file, size_t most_bytes = kMostBytes)
      : file_(std::move(file)), most_bytes_(most_bytes) {}

  const std::string& name() const { return file_; }
  // Blocks. UNAVAILABLE where it cannot be written.
  absl::Status append(const Json& document);

 private:
  const std::string file_;
  const size_t most_bytes_;
};

// The last recording of a file, or a document that is one. Blocks.
absl::StatusOr<Json> read_last_recording(const std::string& file);

}  // namespace fermata::tune
