#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fermata::engine {

// What a profile was measured on, for people: "8 x AMD EPYC 9654, ONNX Runtime 1.30.0".
std::string describe_machine();

// Memory that this machine has, in mebibytes.
double machine_mb();

// The processors that this process may use.
std::vector<uint32_t> own_processors();

// How many processors' time this process may use: those, or fewer where its cgroup has a quota; at
// least 1.
uint32_t own_cores();

// Resident memory of this process now, in mebibytes; of another, 0 where there is none.
double resident_mb();
double resident_mb(int64_t process);

}  // namespace fermata::engine
