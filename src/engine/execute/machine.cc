#include "engine/execute/machine.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "engine/execute/onnx_c_api.h"

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

double resident_mb() {
  std::ifstream statm("/proc/self/statm");
  double total = 0, resident = 0;
  statm >> total >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

}  // namespace fermata::engine
