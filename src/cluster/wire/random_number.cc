#include "cluster/wire/random_number.h"

#include <random>

namespace fermata::cluster {

uint64_t random_number() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

}  // namespace fermata::cluster
