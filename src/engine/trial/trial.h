#pragma once

#include <iosfwd>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "engine/confine/child.h"
#include "engine/options.h"
#include "engine/trial/row_trial.h"
#include "model/model_config.h"
#include "model/profile.h"

namespace fermata::engine {

// A model is opened, and run for the first time, in a child process, so that one that crashes,
// never ends or takes all memory does so there.

struct TrialOptions {
  std::string file, model, version;  // the file of its first stage
  inference::ModelConfig config;     // as written
  uint32_t default_max_batch = 64;
  uint32_t max_batch = 65'536;  // lowers the model's own
  WorkerType worker;            // it is tried on
  bool run = true;              // false: only opened
  bool measure = false;         // for a moment, as make_first_runs() does
  Shapes shapes;                // of items, to try first
};

struct Trial {
  FileSignature face;  // what the files of all its stages take and give
  RowTrial rows;
  std::optional<Profile> profile;
  std::string unmeasured;  // why there is no profile where one was wanted: it does not run on zeros
};

// The child is `program try-model`. Blocks until it ends, at most `limits.time`. INVALID_ARGUMENT
// says whether the file is no model, crashed the reader, or kept it busy for too long; or the same
// of its first runs.
absl::StatusOr<Trial> try_model(const std::string& program, const TrialOptions& options,
                                const TrialLimits& limits, Nursery* nursery = nullptr);

// The configuration to complete: where it does not say whether the model batches, what the trial
// has shown.
inference::ModelConfig tried_config(inference::ModelConfig config, const RowTrial& rows);

// The child's side: reads what to try, limits its own memory, time and network, and prints a line
// of JSON for each thing found.
absl::Status answer_trial(std::istream& in, std::ostream& out);

}  // namespace fermata::engine
