#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/status.h"
#include "cluster/wire/channel.h"
#include "model/request_limits.h"
#include "model/tensor.h"

namespace fermata::cluster {

// Takes tensors out of a frame, in order. They share its bytes.
class TensorReader {
 public:
  explicit TensorReader(const Frame& frame) : frame_(frame) {}
  // Of which some may be with workers that keep them: without an address, with the one at `keeper`.
  TensorReader(const Frame& frame, std::string keeper)
      : frame_(frame), keeper_(std::move(keeper)) {}

  absl::StatusOr<Tensor> next(const TensorHead& head) {
    if (head.datatype() > static_cast<uint32_t>(DataType::kBytes)) {
      return invalid("tensor '{}': datatype {}, expected 0 to {}", head.name(), head.datatype(),
                     static_cast<uint32_t>(DataType::kBytes));
    }
    if (head.shape_size() > static_cast<int>(kMostDimensions)) {
      return invalid("tensor '{}': {} dimensions, expected at most {}", head.name(),
                     head.shape_size(), kMostDimensions);
    }
    if (head.has_kept()) return kept(head);
    if (head.bytes() > frame_.bytes - at_) {
      return invalid("tensor '{}': {} bytes, and {} of the frame are left", head.name(),
                     head.bytes(), frame_.bytes - at_);
    }
    Tensor tensor{head.name(),
                  static_cast<DataType>(head.datatype()),
                  Shape(head.shape().begin(), head.shape().end()),
                  {}};
    tensor.data = {{frame_.payload.get() + at_, head.bytes()}, frame_.payload};
    at_ += head.bytes();
    return tensor;
  }
  absl::Status end() const {
    if (at_ == frame_.bytes) return absl::OkStatus();
    return invalid("the tensors have {} bytes, and the frame {}", at_, frame_.bytes);
  }

 private:
  // Of texts nobody could say here whether they are sound.
  absl::StatusOr<Tensor> kept(const TensorHead& head) const {
    const Kept& from = head.kept();
    std::string holder = from.holder().empty() ? keeper_.value_or("") : from.holder();
    if (!keeper_ || holder.empty() || static_cast<DataType>(head.datatype()) == DataType::kBytes) {
      return invalid("tensor '{}' is with another worker", head.name());
    }
    Tensor tensor{head.name(),
                  static_cast<DataType>(head.datatype()),
                  Shape(head.shape().begin(), head.shape().end()),
                  {}};
    tensor.data.elsewhere = std::make_shared<KeptElsewhere>(
        KeptElsewhere{std::move(holder), from.key(), from.first(), from.bytes(), head.name(), {}});
    return tensor;
  }

  const Frame& frame_;
  const std::optional<std::string> keeper_ = {};
  uint64_t at_ = 0;
};

}  // namespace fermata::cluster
