#include "engine/options.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"

namespace fermata::engine {

bool is_worker_type_name(std::string_view name) {
  return !name.empty() && absl::c_all_of(name, [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_';
  });
}

uint32_t WorkerOptions::count() const {
  uint32_t sum = 0;
  for (const WorkerType& type : types) sum += type.count;
  return sum;
}

bool WorkerOptions::all_remote() const {
  return std::all_of(types.begin(), types.end(),
                     [](const WorkerType& type) { return type.remote; });
}

double WorkerOptions::least_memory_mb() const {
  double least = std::numeric_limits<double>::infinity();
  for (const WorkerType& type : types) least = std::min(least, type.memory_mb);
  return least;
}

}  // namespace fermata::engine
