#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace fermata::cluster {

// Of all files beside a version's model file, by which two hosts see that they have the same.
inline uint64_t model_bytes(const std::string& file) {
  std::error_code ignored;
  uint64_t sum = 0;
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, ignored)) {
    if (entry.is_regular_file(ignored)) sum += entry.file_size(ignored);
  }
  return sum;
}

}  // namespace fermata::cluster
