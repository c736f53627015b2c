#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "store/object_store.h"

namespace fermata::store {

// A folder with what a model repository in a store holds, from which models are read. What is
// there already with the same ETag is not fetched again, so that a server starts without its store.
// Blocks; any thread.
class Mirror {
 public:
  // `prefix` is empty or ends with '/'. The folder is made where it is missing.
  Mirror(std::unique_ptr<ObjectStore> store, std::string prefix, std::filesystem::path folder);

  const std::filesystem::path& folder() const { return folder_; }
  // Brings one model, or where `model` is empty all of them, to what the store has now: files that
  // went there go here. A file is replaced whole or not at all. Where it fails, the folder may hold
  // some files of the new state, and the error says of which file.
  absl::Status refresh(std::string_view model);

 private:
  absl::Status bring(const Object& object, const std::filesystem::path& place);
  absl::Status remove_others(const std::filesystem::path& below,
                             const std::vector<std::filesystem::path>& kept);

  const std::unique_ptr<ObjectStore> store_;
  const std::string prefix_;
  const std::filesystem::path folder_;
  std::mutex mutex_;
};

// Where the mirror of a repository lies unless the configuration says: below XDG_CACHE_HOME, or
// ~/.cache, in a folder of its own for each URL.
std::filesystem::path default_mirror(std::string_view url);

}  // namespace fermata::store
