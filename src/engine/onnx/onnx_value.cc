#include "engine/onnx/onnx_value.h"

#include <algorithm>
#include <cstring>

#include "base/status.h"
#include "model/signature.h"
#include "model/tensor_values.h"

namespace fermata::engine {
namespace {

absl::StatusOr<OrtPtr<OrtValue>> make_strings(const OnnxInput& input) {
  ASSIGN_OR_RETURN(const OrtRuntime* runtime, ort_runtime());
  OrtValue* raw = nullptr;
  RETURN_IF_ERROR(take_status(
      ort().CreateTensorAsOrtValue(runtime->allocator, input.shape.data(), input.shape.size(),
                                   ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING, &raw)));
  OrtPtr<OrtValue> value(raw);
  const uint64_t count = element_count(input.shape);
  size_t at = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const auto text = next_string(input.data, at);
    if (!text) return invalid("input '{}': BYTES element {} is cut off", *input.name, i);
    char* buffer = nullptr;
    RETURN_IF_ERROR(
        take_status(ort().GetResizedStringTensorElementBuffer(raw, i, text->size(), &buffer)));
    if (!text->empty()) std::memcpy(buffer, text->data(), text->size());
  }
  return value;
}

absl::StatusOr<Payload> read_strings(const OrtValue* value, size_t count) {
  size_t total = 0;
  RETURN_IF_ERROR(take_status(ort().GetStringTensorDataLength(value, &total)));
  std::vector<char> text(total);
  std::vector<size_t> offsets(count);
  RETURN_IF_ERROR(
      take_status(ort().GetStringTensorContent(value, text.data(), total, offsets.data(), count)));
  auto bytes = std::make_shared<std::vector<std::byte>>(total + count * sizeof(uint32_t));
  std::byte* at = bytes->data();
  for (size_t i = 0; i < count; ++i) {
    const size_t end = i + 1 < count ? offsets[i + 1] : total;
    const auto length = static_cast<uint32_t>(end - offsets[i]);
    std::memcpy(at, &length, sizeof(length));
    if (length > 0) std::memcpy(at + sizeof(length), text.data() + offsets[i], length);
    at += sizeof(length) + length;
  }
  return Payload{*bytes, bytes};
}

bool lies_in(const void* data, const std::vector<OnnxInput>& inputs) {
  const auto* at = static_cast<const std::byte*>(data);
  return std::any_of(inputs.begin(), inputs.end(), [at](const OnnxInput& input) {
    return at >= input.data.data() && at < input.data.data() + input.data.size();
  });
}

}  // namespace

absl::StatusOr<OrtPtr<OrtValue>> make_value(const OnnxInput& input) {
  if (input.datatype == DataType::kBytes) return make_strings(input);
  ASSIGN_OR_RETURN(const OrtRuntime* runtime, ort_runtime());
  OrtValue* raw = nullptr;
  RETURN_IF_ERROR(take_status(ort().CreateTensorWithDataAsOrtValue(
      runtime->cpu, const_cast<std::byte*>(input.data.data()), input.data.size(),
      input.shape.data(), input.shape.size(), to_onnx(input.datatype), &raw)));
  return OrtPtr<OrtValue>(raw);
}

absl::StatusOr<Tensor> read_value(const std::string& name, OrtPtr<OrtValue> value,
                                  const std::vector<OnnxInput>& inputs) {
  OrtTensorTypeAndShapeInfo* raw_info = nullptr;
  RETURN_IF_ERROR(take_status(ort().GetTensorTypeAndShape(value.get(), &raw_info)));
  const OrtPtr<OrtTensorTypeAndShapeInfo> info(raw_info);
  ONNXTensorElementDataType element = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  RETURN_IF_ERROR(take_status(ort().GetTensorElementType(raw_info, &element)));
  const std::optional<DataType> datatype = from_onnx(element);
  if (!datatype) return internal("output '{}' has an element type that has no name", name);
  size_t rank = 0, count = 0;
  RETURN_IF_ERROR(take_status(ort().GetDimensionsCount(raw_info, &rank)));
  RETURN_IF_ERROR(take_status(ort().GetTensorShapeElementCount(raw_info, &count)));
  Tensor tensor{.name = name, .datatype = *datatype, .shape = Shape(rank)};
  RETURN_IF_ERROR(take_status(ort().GetDimensions(raw_info, tensor.shape.data(), rank)));
  if (*datatype == DataType::kBytes) {
    ASSIGN_OR_RETURN(tensor.data, read_strings(value.get(), count));
    return tensor;
  }
  void* data = nullptr;
  RETURN_IF_ERROR(take_status(ort().GetTensorMutableData(value.get(), &data)));
  const absl::Span<const std::byte> bytes(static_cast<const std::byte*>(data),
                                          count * element_size(*datatype));
  if (lies_in(data, inputs)) {
    auto copy = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
    tensor.data = {*copy, copy};
  } else {
    tensor.data = {bytes, std::shared_ptr<OrtValue>(std::move(value))};
  }
  return tensor;
}

}  // namespace fermata::engine
