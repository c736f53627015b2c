#pragma once

#include <cstdint>
#include <random>

namespace fermata::cluster {

// Of sessions and requests, so that those of an earlier process are no longer anybody's.
inline uint64_t random_number() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

}  // namespace fermata::cluster
