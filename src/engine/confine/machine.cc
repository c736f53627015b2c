#include "engine/confine/machine.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "engine/confine/processor_quota.h"
#include "engine/onnx/onnx_c_api.h"

namespace fermata::engine {

std::string describe_machine() {
  std::ifstream info("/proc/cpuinfo");
  std::string line, model = "unknown processor";
  while (std::getline(info, line)) {
    const size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) {
      model = line.substr(colon + 2);
      break;
    }
  }
  return fmt::format("{} x {}, ONNX Runtime {}", std::thread::hardware_concurrency(), model,
                     OrtGetApiBase()->GetVersionString());
}

double machine_mb() {
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE)) /
         (1 << 20);
}

std::vector<uint32_t> own_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<uint32_t> processors;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return processors;
  for (uint32_t p = 0; p < CPU_SETSIZE; ++p) {
    if (CPU_ISSET(p, &set)) processors.push_back(p);
  }
  return processors;
}

uint32_t own_cores() {
  double cores = static_cast<double>(std::max<size_t>(own_processors().size(), 1));
  if (const auto quota = processor_quota().cores) cores = std::min(cores, *quota);
  return static_cast<uint32_t>(std::max(cores, 1.0));
}

double resident_mb() { return resident_mb(getpid()); }

double resident_mb(int64_t process) {
  std::ifstream statm("/proc/" + std::to_string(process) + "/statm");
  double total = 0, resident = 0;
  statm >> total >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

}  // namespace fermata::engine
