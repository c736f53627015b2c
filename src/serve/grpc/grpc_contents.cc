#include "serve/grpc/grpc_contents.h"

#include <cstring>
#include <string>
#include <utility>

#include "base/status.h"
#include "model/signature.h"

namespace fermata::serve {
namespace {

using Contents = inference::InferTensorContents;

template <class List>
Payload view_of(const List& list, std::shared_ptr<const void> owner) {
  const auto* start = reinterpret_cast<const std::byte*>(list.data());
  return {absl::MakeSpan(start, list.size() * sizeof(*list.data())), std::move(owner)};
}

Payload own(std::shared_ptr<std::string> bytes) {
  const auto* start = reinterpret_cast<const std::byte*>(bytes->data());
  return {absl::MakeSpan(start, bytes->size()), std::move(bytes)};
}

template <class T, class List>
absl::StatusOr<Payload> narrow(const List& list, const Tensor& tensor) {
  auto bytes = std::make_shared<std::string>();
  bytes->reserve(list.size() * sizeof(T));
  for (const auto wide : list) {
    if (!std::in_range<T>(wide)) {
      return invalid("input {}: {} is not of datatype {}", tensor.name, wide,
                     name(tensor.datatype));
    }
    const T value = static_cast<T>(wide);
    bytes->append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  return own(std::move(bytes));
}

Payload frame(const google::protobuf::RepeatedPtrField<std::string>& list) {
  auto bytes = std::make_shared<std::string>();
  for (const std::string& element : list) {
    const auto size = static_cast<uint32_t>(element.size());
    bytes->append(reinterpret_cast<const char*>(&size), sizeof(size)).append(element);
  }
  return own(std::move(bytes));
}

// How many elements the list for a datatype has; FP16 and BF16 have none.
int count_for(DataType type, const Contents& from) {
  switch (type) {
    case DataType::kBool:
      return from.bool_contents_size();
    case DataType::kUint8:
    case DataType::kUint16:
    case DataType::kUint32:
      return from.uint_contents_size();
    case DataType::kUint64:
      return from.uint64_contents_size();
    case DataType::kInt8:
    case DataType::kInt16:
    case DataType::kInt32:
      return from.int_contents_size();
    case DataType::kInt64:
      return from.int64_contents_size();
    case DataType::kFp32:
      return from.fp32_contents_size();
    case DataType::kFp64:
      return from.fp64_contents_size();
    case DataType::kBytes:
      return from.bytes_contents_size();
    case DataType::kFp16:
    case DataType::kBf16:
      break;
  }
  return 0;
}

}  // namespace

absl::StatusOr<Payload> read_contents(const Contents& from, const Tensor& tensor,
                                      std::shared_ptr<const void> owner) {
  const auto count = static_cast<uint64_t>(count_for(tensor.datatype, from));
  if (count != element_count(tensor.shape)) {
    return invalid("input {}: contents have {} elements of datatype {}, its shape {} holds {}",
                   tensor.name, count, name(tensor.datatype), to_string(tensor.shape),
                   element_count(tensor.shape));
  }
  switch (tensor.datatype) {
    case DataType::kBool:
      return view_of(from.bool_contents(), std::move(owner));
    case DataType::kUint8:
      return narrow<uint8_t>(from.uint_contents(), tensor);
    case DataType::kUint16:
      return narrow<uint16_t>(from.uint_contents(), tensor);
    case DataType::kUint32:
      return view_of(from.uint_contents(), std::move(owner));
    case DataType::kUint64:
      return view_of(from.uint64_contents(), std::move(owner));
    case DataType::kInt8:
      return narrow<int8_t>(from.int_contents(), tensor);
    case DataType::kInt16:
      return narrow<int16_t>(from.int_contents(), tensor);
    case DataType::kInt32:
      return view_of(from.int_contents(), std::move(owner));
    case DataType::kInt64:
      return view_of(from.int64_contents(), std::move(owner));
    case DataType::kFp32:
      return view_of(from.fp32_contents(), std::move(owner));
    case DataType::kFp64:
      return view_of(from.fp64_contents(), std::move(owner));
    case DataType::kBytes:
      return frame(from.bytes_contents());
    case DataType::kFp16:
    case DataType::kBf16:
      break;
  }
  return Payload{};  // an empty shape, as the count has shown
}

}  // namespace fermata::serve
