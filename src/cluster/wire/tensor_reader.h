#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "base/status.h"
#include "cluster/wire/channel.h"
#include "model/tensor.h"

namespace fermata::cluster {

// Takes tensors out of a frame, in order. They share its bytes.
class TensorReader {
 public:
  explicit TensorReader(const Frame& frame) : frame_(frame) {}

  absl::StatusOr<Tensor> next(const TensorHead& head) {
    if (head.datatype() > static_cast<uint32_t>(DataType::kBytes)) {
      return invalid("tensor '{}': datatype {}, expected 0 to {}", head.name(), head.datatype(),
                     static_cast<uint32_t>(DataType::kBytes));
    }
    if (head.shape_size() > kMostRank) {
      return invalid("tensor '{}': {} dimensions, expected at most {}", head.name(),
                     head.shape_size(), kMostRank);
    }
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
  static constexpr int kMostRank = 64;
  const Frame& frame_;
  uint64_t at_ = 0;
};

}  // namespace fermata::cluster
