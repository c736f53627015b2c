#pragma once

#include <cstdint>
#include <memory>
#include <opencv2/core.hpp>
#include <vector>

#include "absl/status/statusor.h"
#include "load/transport.h"
#include "model/tensor.h"

namespace fermata::client {

// Makes what a service takes of a picture. Not safe across threads; keeps its buffers.
class FrameEncoder {
 public:
  struct Options {
    int quality = 90;  // of a JPEG, 1 to 100
  };
  // For the one input of a service: BYTES [1] (a JPEG, chroma halved both ways), UINT8
  // [side, side, 3], or FP32 [3, side, side] in [0, 1]; each with a leading 1 where the service
  // batches. INVALID_ARGUMENT says what it takes instead.
  static absl::StatusOr<FrameEncoder> make(const std::vector<load::InputInfo>& inputs,
                                           Options options);

  // `picture`: CV_8UC3, red first, of any size; it is stretched to a square. O(pixels).
  absl::StatusOr<Tensor> encode(const cv::Mat& picture, uint32_t side);

 private:
  enum class Form { kJpeg, kBytes, kFloats };
  FrameEncoder(load::InputInfo input, Form form, Options options);
  absl::StatusOr<Payload> jpeg(const cv::Mat& square);

  load::InputInfo input_;
  Form form_;
  Options options_;
  std::unique_ptr<void, int (*)(void*)> compressor_;
  std::vector<unsigned char> buffer_;
};

}  // namespace fermata::client
