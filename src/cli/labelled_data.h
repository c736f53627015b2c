#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/evaluate.h"
#include "model/signature.h"

namespace fermata::cli {

// Where labelled examples lie: one .jsonl of requests that carry their label, as fermata
// load reads it; or a .npy for each input, an example a row, and a .npy of labels.
struct LabelledFiles {
  std::vector<std::string> data;  // "FILE" for a model with one input, else "INPUT=FILE"
  std::string labels;             // empty for .jsonl
};

// Blocks. INVALID_ARGUMENT and NOT_FOUND name the file and the place in it.
absl::StatusOr<engine::LabelledRequests> read_labelled(const LabelledFiles& files,
                                                       const Signature& signature);

}  // namespace fermata::cli
