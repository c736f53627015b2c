#include "operators/values.h"

#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/status.h"
#include "model/tensor_values.h"

namespace fermata::operators {

static_assert(std::endian::native == std::endian::little, "tensors are little-endian");

Floats::Floats(const Tensor& tensor) {
  const absl::Span<const std::byte> bytes = tensor.data.bytes;
  const size_t count = bytes.size() / sizeof(float);
  if (reinterpret_cast<uintptr_t>(bytes.data()) % alignof(float) == 0) {
    values_ = {reinterpret_cast<const float*>(bytes.data()), count};
    return;
  }
  copied_.resize(count);
  std::memcpy(copied_.data(), bytes.data(), count * sizeof(float));
  values_ = copied_;
}

Tensor floats(std::string name, Shape shape, std::vector<float> values) {
  FERMATA_CHECK(element_count(shape) == values.size());
  return {std::move(name), DataType::kFp32, std::move(shape), payload_of(std::move(values))};
}

Tensor whole_numbers(std::string name, Shape shape, std::vector<int64_t> values) {
  FERMATA_CHECK(element_count(shape) == values.size());
  return {std::move(name), DataType::kInt64, std::move(shape), payload_of(std::move(values))};
}

Tensor texts(std::string name, const std::vector<std::string>& values) {
  std::vector<char> bytes;
  for (const std::string& value : values) {
    const auto length = static_cast<uint32_t>(value.size());
    const char* raw = reinterpret_cast<const char*>(&length);
    bytes.insert(bytes.end(), raw, raw + sizeof length);
    bytes.insert(bytes.end(), value.begin(), value.end());
  }
  return {std::move(name),
          DataType::kBytes,
          {static_cast<int64_t>(values.size())},
          payload_of(std::move(bytes))};
}

absl::StatusOr<absl::Span<const std::byte>> only_text(const Tensor& tensor) {
  size_t at = 0;
  const auto text = next_string(tensor.data.bytes, at);
  if (text && at == tensor.data.bytes.size()) return *text;
  return invalid("input '{}' has {} bytes, expected a length of 4 bytes and one element",
                 tensor.name, tensor.data.bytes.size());
}

cv::Mat picture(const Tensor& tensor) {
  return {static_cast<int>(tensor.shape[0]), static_cast<int>(tensor.shape[1]), CV_8UC3,
          const_cast<std::byte*>(tensor.data.bytes.data())};
}

Tensor picture(std::string name, const cv::Mat& image) {
  const auto kept =
      std::make_shared<cv::Mat>(image.isContinuous() && image.u != nullptr ? image : image.clone());
  const size_t bytes = kept->total() * kept->elemSize();
  return {std::move(name),
          DataType::kUint8,
          {kept->rows, kept->cols, 3},
          {absl::MakeConstSpan(reinterpret_cast<const std::byte*>(kept->data), bytes), kept}};
}

}  // namespace fermata::operators
