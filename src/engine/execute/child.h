#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/time.h"

namespace fermata::engine {

struct ChildResult {
  bool timed_out = false;
  int signal = 0;  // that ended it; 0: it ended by itself
  int exit_code = 0;
  std::string output, error;  // at most 16 MiB each; no newline at the end of error
};

// Runs a program without a shell, its input empty and no other file of ours open, and
// waits for it; kills it after `limit`. Fails only where it cannot be started.
absl::StatusOr<ChildResult> run_child(const std::vector<std::string>& command, Duration limit);

}  // namespace fermata::engine
