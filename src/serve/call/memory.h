#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "base/byte_budget.h"

namespace fermata::serve {

// Why a message could not be held. Where `bytes` are more than `held`'s client may ever have,
// OUT_OF_RANGE says both and `instead`, what a client can do; else RESOURCE_EXHAUSTED, since others
// hold the memory now. `what` takes the memory: "its BYTES elements".
absl::Status no_memory_for(std::string_view what, uint64_t bytes, const HeldBytes& held,
                           std::string_view instead);

// What to do about a request that is too large by any road.
inline constexpr std::string_view kSmaller = "send less in one request";

}  // namespace fermata::serve
