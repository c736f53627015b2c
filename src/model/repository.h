#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "model_config.pb.h"

namespace fermata {

// What lies in one folder of a repository in Triton's layout:
//   NAME/config.pbtxt (optional)   NAME/VERSION/model.onnx   NAME/profile.json (optional)
// Models of other kinds have another file (model/model_kind.h).
// model.onnx may be a folder, which then holds model.onnx and its weights.
// A width of a dynamic network may have another model's files (model/dynamic_network.h).
struct ModelFolder {
  std::string name;
  std::filesystem::path path;
  std::filesystem::path files;    // the folder that its versions are in; of most models `path`
  inference::ModelConfig config;  // as written; empty where there is none
  std::string source;             // of `config`, as errors name it
  std::vector<int64_t> versions;  // to be served, ascending, never empty
  std::filesystem::path profile() const { return path / "profile.json"; }
  // On workers of one type, where these differ.
  std::filesystem::path profile_on(std::string_view worker_type) const {
    return path / ("profile." + std::string(worker_type) + ".json");
  }
  // On workers of so many threads, whatever they are called; those that there are.
  std::filesystem::path profile_with(uint32_t threads) const {
    return profile_on("threads-" + std::to_string(threads));
  }
  std::map<uint32_t, std::filesystem::path> profiles_by_threads() const;
  std::filesystem::path file(int64_t version) const;
  // The same error, of the configuration; OK stays so.
  absl::Status in_config(const absl::Status& status) const;
};

// The names of the folders, sorted; hidden ones are left out. NOT_FOUND where
// `repository` is not a folder.
absl::StatusOr<std::vector<std::string>> model_names(const std::filesystem::path& repository);

// Reads one model's folder: its configuration, which is of a kind that is served, and which
// versions version_policy picks (default: the newest). `config` replaces config.pbtxt. NOT_FOUND
// where there is no such folder, FAILED_PRECONDITION where no version and no model is in it, else
// INVALID_ARGUMENT with the file and what is wrong.
absl::StatusOr<ModelFolder> read_model_folder(const std::filesystem::path& repository,
                                              std::string_view name,
                                              const std::optional<std::string>& config = {});

}  // namespace fermata
