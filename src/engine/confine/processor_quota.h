#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace fermata::engine {

// What the cgroup of this process, of either version, lets it have of the processors.
struct ProcessorQuota {
  std::optional<double> cores;  // processors' time that it may use; none: all there are
  uint64_t throttled = 0;       // times that it was held back since it had used that up
  double throttled_s = 0;       // and for how long, all its threads together
};

ProcessorQuota processor_quota(const std::filesystem::path& cgroups = "/sys/fs/cgroup");

}  // namespace fermata::engine
