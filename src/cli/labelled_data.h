#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/execute/evaluate.h"
#include "model/signature.h"

namespace fermata::cli {

// Where labelled examples lie: one .jsonl of requests that carry their label, as fermata
// load reads it; or a .npy for each input, an example a row, and a .npy of labels.
struct LabelledFiles {
  std::vector<std::string> data;  // "FILE" for a model with one input, else "INPUT=FILE"
  std::string labels;             // empty for .jsonl
};

// Whether labels have to be there, are taken where they are, or are left out.
enum class Labels : uint8_t { kRequired, kTaken, kLeftOut };

// Blocks. INVALID_ARGUMENT and NOT_FOUND name the file and the place in it. Without labels
// those of the result are empty; of a .jsonl they are taken where its first example has one.
absl::StatusOr<engine::LabelledRequests> read_labelled(const LabelledFiles& files,
                                                       const Signature& signature,
                                                       Labels labels = Labels::kRequired);

}  // namespace fermata::cli
