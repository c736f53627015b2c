#include "client/frame_encoder.h"

#include <turbojpeg.h>

#include <cstring>
#include <utility>

#include "base/status.h"
#include "model/signature.h"
#include "operators/pictures.h"

namespace fermata::client {
namespace {

constexpr int kSubsampling = TJSAMP_420;

// The dimensions of one item, if a picture fits.
std::optional<Shape> without_batch(const load::InputInfo& input, size_t rank) {
  if (input.shape.size() == rank) return input.shape;
  if (input.shape.size() != rank + 1 || (input.shape[0] != -1 && input.shape[0] != 1)) {
    return std::nullopt;
  }
  return Shape(input.shape.begin() + 1, input.shape.end());
}

Payload bytes_of(const cv::Mat& square) {
  std::vector<uint8_t> bytes(square.total() * 3);
  for (int y = 0; y < square.rows; ++y) {
    std::memcpy(bytes.data() + y * square.cols * size_t{3}, square.ptr(y), square.cols * size_t{3});
  }
  return payload_of(std::move(bytes));
}

Payload floats_of(const cv::Mat& square) {
  const size_t pixels = square.total();
  std::vector<float> values(pixels * 3);
  size_t at = 0;
  for (int y = 0; y < square.rows; ++y) {
    const uint8_t* row = square.ptr(y);
    for (int x = 0; x < square.cols; ++x, ++at) {
      for (size_t c = 0; c < 3; ++c) values[c * pixels + at] = row[x * 3 + c] / 255.0f;
    }
  }
  return payload_of(std::move(values));
}

}  // namespace

absl::StatusOr<FrameEncoder> FrameEncoder::make(const std::vector<load::InputInfo>& inputs,
                                                Options options) {
  if (inputs.size() != 1) {
    return invalid("the service has {} inputs, expected one, for a picture", inputs.size());
  }
  const load::InputInfo& input = inputs.front();
  if (input.datatype == DataType::kBytes) {
    if (const auto item = without_batch(input, 1); item && (item->at(0) == 1 || item->at(0) == -1))
      return FrameEncoder(input, Form::kJpeg, options);
  }
  const auto item = without_batch(input, 3);
  if (item && input.datatype == DataType::kUint8 && item->back() == 3) {
    return FrameEncoder(input, Form::kBytes, options);
  }
  if (item && input.datatype == DataType::kFp32 && item->front() == 3) {
    return FrameEncoder(input, Form::kFloats, options);
  }
  return invalid(
      "the service's input '{}' is {} {}, expected BYTES [1] for a JPEG, UINT8 [height, width, 3] "
      "or FP32 [3, height, width]",
      input.name, name(input.datatype), to_string(input.shape));
}

FrameEncoder::FrameEncoder(load::InputInfo input, Form form, Options options)
    : input_(std::move(input)),
      form_(form),
      options_(options),
      compressor_(form == Form::kJpeg ? tjInitCompress() : nullptr, tjDestroy) {}

absl::StatusOr<Payload> FrameEncoder::jpeg(const cv::Mat& square) {
  if (compressor_ == nullptr) return internal("libjpeg-turbo could not start");
  // One element, led by its length.
  uint32_t length = 0;
  buffer_.resize(sizeof length + tjBufSize(square.cols, square.rows, kSubsampling));
  unsigned char* out = buffer_.data() + sizeof length;
  unsigned long size = buffer_.size() - sizeof length;
  if (tjCompress2(compressor_.get(), square.data, square.cols, static_cast<int>(square.step),
                  square.rows, TJPF_RGB, &out, &size, kSubsampling, options_.quality,
                  TJFLAG_NOREALLOC) != 0) {
    return internal("libjpeg-turbo: {}", tjGetErrorStr2(compressor_.get()));
  }
  length = static_cast<uint32_t>(size);
  std::memcpy(buffer_.data(), &length, sizeof length);
  return payload_of(std::vector(buffer_.data(), out + size));
}

absl::StatusOr<Tensor> FrameEncoder::encode(const cv::Mat& picture, uint32_t side) {
  if (picture.empty() || picture.type() != CV_8UC3) {
    return invalid("the picture is {} x {} of OpenCV's type {}, expected pixels of three bytes",
                   picture.cols, picture.rows, picture.type());
  }
  const auto length = static_cast<int>(side);
  const cv::Mat square = operators::resized(picture, {length, length});
  Tensor tensor{.name = input_.name, .datatype = input_.datatype};
  const bool batches = input_.shape.size() == (form_ == Form::kJpeg ? 2 : 4);
  if (batches) tensor.shape.push_back(1);
  switch (form_) {
    case Form::kJpeg: {
      ASSIGN_OR_RETURN(tensor.data, jpeg(square));
      tensor.shape.push_back(1);
      break;
    }
    case Form::kBytes:
      tensor.data = bytes_of(square);
      tensor.shape.insert(tensor.shape.end(), {side, side, 3});
      break;
    case Form::kFloats:
      tensor.data = floats_of(square);
      tensor.shape.insert(tensor.shape.end(), {3, side, side});
      break;
  }
  return tensor;
}

}  // namespace fermata::client
