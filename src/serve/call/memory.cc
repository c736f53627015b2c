#include "serve/call/memory.h"

#include "base/status.h"

namespace fermata::serve {

absl::Status no_memory_for(std::string_view what, uint64_t bytes, const HeldBytes& held,
                           std::string_view instead) {
  constexpr double kMiB = 1 << 20;
  if (bytes <= held.most()) {
    return error(absl::StatusCode::kResourceExhausted,
                 "memory limit reached (listen.memory_mb): no room for {}; retry later", what);
  }
  return error(
      absl::StatusCode::kOutOfRange,
      "{} would take {:.0f} MiB, but one client may hold {:.0f} MiB (listen.memory_mb): {}", what,
      static_cast<double>(bytes) / kMiB, static_cast<double>(held.most()) / kMiB, instead);
}

}  // namespace fermata::serve
