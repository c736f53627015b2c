#include "cluster/wire/frame.h"

#include <cstring>

#include "base/status.h"

namespace fermata::cluster {
namespace {

constexpr uint32_t kFrameMagic = 0x31434d46;  // "FMC1"

}  // namespace

std::array<std::byte, kFrameHead> encode_head(const FrameHead& head) {
  std::array<std::byte, kFrameHead> bytes;
  std::memcpy(bytes.data(), &kFrameMagic, 4);
  std::memcpy(bytes.data() + 4, &head.message, 4);
  std::memcpy(bytes.data() + 8, &head.payload, 8);
  return bytes;
}

absl::StatusOr<FrameHead> decode_head(absl::Span<const std::byte> bytes,
                                      const FrameLimits& limits) {
  if (bytes.size() != kFrameHead) {
    return invalid("a frame's head has {} bytes, expected {}", bytes.size(), kFrameHead);
  }
  uint32_t magic = 0;
  FrameHead head;
  std::memcpy(&magic, bytes.data(), 4);
  std::memcpy(&head.message, bytes.data() + 4, 4);
  std::memcpy(&head.payload, bytes.data() + 8, 8);
  if (magic != kFrameMagic) return invalid("it does not begin with FMC1: not a part of Fermata");
  if (head.message > limits.message || head.payload > limits.payload) {
    return invalid("a frame of {} and {} bytes, expected at most {} and {}", head.message,
                   head.payload, limits.message, limits.payload);
  }
  return head;
}

}  // namespace fermata::cluster
