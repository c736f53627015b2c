#pragma once

#include <sys/types.h>

#include <filesystem>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/time.h"
#include "engine/confine/model_environment.h"

namespace fermata::engine {

class Nursery;

struct ChildResult {
  bool timed_out = false;
  int signal = 0;  // that ended it; 0: it ended by itself
  int exit_code = 0;
  std::string output, error;  // at most 16 MiB each; no newline at the end of error
};

// Runs a program, found in PATH, without a shell, with `input` to read and no other file of ours
// open and no other environment than models have (model_environment.h), and waits for it; kills it
// after `limit`. Fails only where it cannot be started. `nursery`: what copies the program, if
// anything does.
absl::StatusOr<ChildResult> run_child(const std::vector<std::string>& command, Duration limit,
                                      std::string_view input = {}, Nursery* nursery = nullptr);

// Starts a program, found in PATH, with these as its file descriptors 0, 1, ... and no other; none
// of them is to lie below its place there. `apart`: signals that this process blocks or ignores
// mean to it what they mean to others, and what ends this process's group does not end it.
absl::StatusOr<pid_t> spawn(const std::vector<std::string>& command,
                            absl::Span<const int> descriptors, const ModelEnvironment& environment,
                            bool apart);
void end_child(pid_t child);  // and waits for it

// A file in memory, or a nameless one, that holds it, to be read from its start; -1: there is none.
int file_in_memory(std::string_view text);

// What a model has to be tried with.
struct TrialLimits {
  Duration time;
  double memory_mb = std::numeric_limits<double>::infinity();
  bool quietly = false;  // beside others that serve
};

struct ChildLimits {
  double processor_s = 120;                                    // 0: any
  double memory_mb = std::numeric_limits<double>::infinity();  // that it writes to
  // It may open files to read them only, change none, start no process and signal no other, open
  // no socket, and has no privilege of root's but to read.
  bool confined = false;
  bool quietly = false;  // it gives way to others
};
// For a child to call before it does anything that it was made for: no core file, no large file,
// no internet, and so much processor time and memory. UNAVAILABLE where the system denies it a
// filter of its calls; the other limits are on then.
absl::Status limit_this_process(const ChildLimits& limits);
// The same for one that is copied, with what says when it may be (confine_to_copying()).
absl::StatusOr<int> limit_for_copies(const ChildLimits& limits);

bool limits_memory();  // not where sanitizers reserve terabytes

// What a model of these files may take: libraries, weights as they are read, prepared and copied,
// and what its largest batches have between their layers.
double usual_limit_mb(const std::filesystem::path& folder);
double size_mb(const std::filesystem::path& folder);  // of all files in it

// Of a model's own failure.
bool lacks_memory(const absl::Status& status);

// `status` of a model, or, where memory could not be had under these limits, that it needs more.
absl::Status of_limited(absl::Status status, double memory_mb);

}  // namespace fermata::engine
