#pragma once

#include <filesystem>
#include <string>

#include "absl/status/status.h"

namespace fermata {

// INVALID_ARGUMENT where a file is what Git LFS leaves in the place of one that it has not fetched.
absl::Status check_not_pointer(const std::filesystem::path& file);

// Looks at a version's folder before anything opens its model. OK where `file` may be one. Else
// INVALID_ARGUMENT says what stands there instead (another server's kind of model, a file of
// another name, a pointer of Git LFS in the place of it or of the weights beside it, a page of
// text, nothing) and what to do.
absl::Status check_model_file(const std::filesystem::path& file);

// Why a model's folder has no version: INVALID_ARGUMENT where a model stands in it, with where it
// belongs, else FAILED_PRECONDITION.
absl::Status no_version(const std::filesystem::path& folder);

}  // namespace fermata
