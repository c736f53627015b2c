#pragma once

#include <cstdint>

namespace fermata::cluster {

// Of sessions and requests, so that those of an earlier process are no longer anybody's.
uint64_t random_number();

}  // namespace fermata::cluster
