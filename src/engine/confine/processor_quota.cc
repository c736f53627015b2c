#include "engine/confine/processor_quota.h"

#include <fstream>
#include <string>

namespace fermata::engine {
namespace {

// Names and numbers, a line each.
void read_statistics(const std::filesystem::path& file, ProcessorQuota& quota) {
  std::ifstream statistics(file);
  std::string name;
  double value = 0;
  while (statistics >> name >> value) {
    if (name == "nr_throttled") quota.throttled = static_cast<uint64_t>(value);
    if (name == "throttled_usec") quota.throttled_s = value * 1e-6;
    if (name == "throttled_time") quota.throttled_s = value * 1e-9;  // of version 1
  }
}

}  // namespace

ProcessorQuota processor_quota(const std::filesystem::path& cgroups) {
  ProcessorQuota quota;
  double most = 0, period = 0;
  std::error_code ignored;
  if (std::filesystem::exists(cgroups / "cpu.max", ignored)) {
    std::ifstream of_group(cgroups / "cpu.max");  // "max 100000", or of so many microseconds
    if (of_group >> most >> period && period > 0) quota.cores = most / period;
    read_statistics(cgroups / "cpu.stat", quota);
    return quota;
  }
  std::ifstream of_group(cgroups / "cpu/cpu.cfs_quota_us");  // -1: none
  std::ifstream(cgroups / "cpu/cpu.cfs_period_us") >> period;
  if (of_group >> most && most > 0 && period > 0) quota.cores = most / period;
  read_statistics(cgroups / "cpu/cpu.stat", quota);
  return quota;
}

}  // namespace fermata::engine
