// Operators on hostile pictures, heat maps, boxes and sounds: a byte says which, the rest is the
// data.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/document.h"
#include "base/status.h"
#include "operator_of.h"

namespace {

using namespace fermata;

// The data, cut or repeated to this many numbers.
Tensor numbers(Shape shape, const uint8_t* data, size_t size) {
  std::vector<float> values(element_count(shape));
  for (size_t i = 0; size >= sizeof(float) && i < values.size(); ++i) {
    std::memcpy(&values[i], data + i * sizeof(float) % (size - sizeof(float) + 1), sizeof(float));
  }
  return {"numbers", DataType::kFp32, std::move(shape), payload_of(std::move(values))};
}

Tensor picture(int64_t height, int64_t width) {
  return {"image",
          DataType::kUint8,
          {height, width, 3},
          payload_of(std::vector<uint8_t>(static_cast<size_t>(height * width) * 3, 100))};
}

Tensor encoded(const uint8_t* data, size_t size) {
  const auto length = static_cast<uint32_t>(size);
  std::vector<uint8_t> bytes(sizeof length);
  std::memcpy(bytes.data(), &length, sizeof length);
  bytes.insert(bytes.end(), data, data + size);
  return {"encoded", DataType::kBytes, {1}, payload_of(std::move(bytes))};
}

void check(const operators::Operator& op, const std::vector<Tensor>& inputs) {
  const auto outputs = op.run(inputs);
  if (!outputs.ok()) {
    FERMATA_CHECK(!outputs.status().message().empty());
    FERMATA_CHECK(outputs.status().code() == absl::StatusCode::kInvalidArgument);
    return;
  }
  for (const Tensor& tensor : *outputs) {
    const size_t element = element_size(tensor.datatype);
    FERMATA_CHECK(element == 0 ||
                  element_count(tensor.shape) * element == tensor.data.bytes.size());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto decode = operator_of("{operator: decode-image, max_pixels: 1000000}");
  static const auto boxes = operator_of("operator: text-boxes");
  static const auto crop = operator_of("{operator: crop, size: [8, 16], widest: 64, step: 16}");
  static const auto top = operator_of("{operator: top-k, k: 3}");
  static const auto sound = operator_of("{operator: decode-sound, max_seconds: 2}");
  static const auto windows = operator_of("{operator: windows, size: 5, step: 3}");
  if (size < 4) return 0;
  const int64_t height = data[1] % 48, width = data[2] % 48;
  switch (data[0] % 6) {
    case 0:
      check(*decode, {encoded(data + 1, size - 1)});
      break;
    case 1:
      check(*boxes, {numbers({1, height, width}, data + 3, size - 3), picture(50, 60)});
      break;
    case 2:
      check(*crop, {picture(height, width), numbers({data[3] % 5, 4, 2}, data + 3, size - 3)});
      break;
    case 3:
      check(*sound, {encoded(data + 1, size - 1)});
      break;
    case 4:
      check(*windows, {numbers({data[1]}, data + 2, size - 2)});
      break;
    default:
      check(*top, {numbers({width}, data + 3, size - 3)});
  }
  return 0;
}
