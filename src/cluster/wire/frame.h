#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace fermata::cluster {

// Before every message: "FMC1", the bytes of the message (4) and of the tensors behind it (8), both
// little-endian.
inline constexpr size_t kFrameHead = 16;

struct FrameHead {
  uint32_t message = 0;
  uint64_t payload = 0;
};

// The most that is believed.
struct FrameLimits {
  uint32_t message = 0;
  uint64_t payload = 0;
};
inline constexpr FrameLimits kGreetingLimits{4096, 0};   // of who has not said who it is, and beats
inline constexpr FrameLimits kLoadLimits{64u << 20, 0};  // of loads
inline constexpr FrameLimits kFrameLimits{64u << 20, uint64_t{2} << 30};

std::array<std::byte, kFrameHead> encode_head(const FrameHead& head);
// INVALID_ARGUMENT says what stands there.
absl::StatusOr<FrameHead> decode_head(absl::Span<const std::byte> bytes, const FrameLimits& limits);

}  // namespace fermata::cluster
