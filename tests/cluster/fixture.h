#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cluster/wire/messages.h"

namespace fermata::cluster {

// A model that batches: of two numbers, and a text, one number and a text.
inline Signature signature() {
  Signature made{.batches = true, .max_batch = 4};
  made.inputs = {{.name = "x", .datatype = DataType::kFp32, .dims = {2}, .model_dims = {2}},
                 {.name = "s", .datatype = DataType::kBytes, .dims = {-1}, .model_dims = {-1}}};
  made.outputs = {{.name = "y", .datatype = DataType::kFp32, .dims = {1}, .model_dims = {1}},
                  {.name = "t", .datatype = DataType::kBytes, .dims = {-1}, .model_dims = {-1}}};
  return made;
}

inline Tensor numbers(std::string name, Shape shape, std::vector<float> values) {
  return {std::move(name), DataType::kFp32, std::move(shape), payload_of(std::move(values))};
}

// One text an item.
inline Tensor texts(std::string name, const std::vector<std::string>& values) {
  std::vector<char> bytes;
  for (const std::string& value : values) {
    const auto length = static_cast<uint32_t>(value.size());
    bytes.resize(bytes.size() + sizeof(length));
    std::memcpy(bytes.data() + bytes.size() - sizeof(length), &length, sizeof(length));
    bytes.insert(bytes.end(), value.begin(), value.end());
  }
  return {std::move(name),
          DataType::kBytes,
          {static_cast<int64_t>(values.size()), 1},
          payload_of(std::move(bytes))};
}

// As it comes from a channel.
inline Frame frame_of(const Outgoing& out) {
  Frame frame{.message = out.message, .bytes = out.bytes()};
  std::shared_ptr<std::byte[]> bytes(new std::byte[out.bytes() + 1]);
  size_t at = 0;
  for (const Channel::Bytes each : out.payload) {
    if (!each.empty()) std::memcpy(bytes.get() + at, each.data(), each.size());
    at += each.size();
  }
  frame.payload = bytes;
  return frame;
}

// The same of any bytes: a frame's head, its message, and what is left of its tensors.
inline std::optional<Frame> parse_frame(absl::Span<const std::byte> bytes) {
  if (bytes.size() < kFrameHead) return {};
  const auto head = decode_head(bytes.subspan(0, kFrameHead), kFrameLimits);
  if (!head.ok()) return {};
  const auto rest = bytes.subspan(kFrameHead);
  Frame frame;
  const size_t message = std::min<size_t>(head->message, rest.size());
  if (!frame.message.ParseFromArray(rest.data(), static_cast<int>(message))) return {};
  frame.bytes = std::min<uint64_t>(head->payload, rest.size() - message);
  const std::shared_ptr<std::byte[]> payload(new std::byte[frame.bytes + 1]);
  std::copy_n(rest.data() + message, frame.bytes, payload.get());
  frame.payload = payload;
  return frame;
}

}  // namespace fermata::cluster
