#pragma once

#include <cstdint>
#include <string>

namespace fermata::serve {

// Who sends a request.
struct Client {
  uint64_t connection = 0;  // or stream on one: a number that no other one of this server has
  std::string address;      // of its machine (cluster::machine_of)
};

// Thread-safe.
uint64_t new_connection_number();

}  // namespace fermata::serve
