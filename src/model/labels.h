#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model/repository.h"

namespace fermata {

// What the classes of an output are called, by output; one line of its file each.
using Labels = std::map<std::string, std::vector<std::string>>;

// Reads the files that the configuration names as label_filename, from the model's folder. Blocks.
// INVALID_ARGUMENT names the output and the file that cannot be read.
absl::StatusOr<Labels> read_labels(const ModelFolder& folder);

}  // namespace fermata
