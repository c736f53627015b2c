#pragma once

#include <iosfwd>
#include <string>

#include "absl/status/statusor.h"
#include "engine/catalog.h"
#include "engine/execute/child.h"
#include "engine/execute/executor.h"
#include "engine/options.h"
#include "model/profile.h"

namespace fermata::engine {

// Loads a variant and measures it for a moment: enough for deadlines to mean something, short
// enough for a start. FAILED_PRECONDITION where it loads and does not run on zeros.
absl::StatusOr<Profile> make_first_runs(ExecutorFactory& executors, const Variant& variant);

// The same on a worker of this type in a child process, so that a model that never ends, crashes
// or takes all memory does so there. The child is `program first-runs`. Blocks until it ends,
// at most `limits.time`. INVALID_ARGUMENT says how the child ended.
absl::StatusOr<Profile> make_first_runs_apart(const std::string& program, const Variant& variant,
                                              const WorkerType& worker, const TrialLimits& limits);

// The exit code of a child whose model loads and does not run on zeros.
inline constexpr int kRunsNotOnZeros = 3;

// The child's side: reads what to run, limits its own memory, time and network, and prints the
// profile.
absl::Status print_first_runs(std::istream& in, std::ostream& out);

}  // namespace fermata::engine
