#include "serve/call/classification.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "model/signature.h"

namespace fermata::serve {
namespace {

template <class T>
double load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return static_cast<double>(value);
}

using Load = double (*)(const std::byte*);

Load load_for(DataType type) {
  switch (type) {
    case DataType::kUint8:
      return load<uint8_t>;
    case DataType::kUint16:
      return load<uint16_t>;
    case DataType::kUint32:
      return load<uint32_t>;
    case DataType::kUint64:
      return load<uint64_t>;
    case DataType::kInt8:
      return load<int8_t>;
    case DataType::kInt16:
      return load<int16_t>;
    case DataType::kInt32:
      return load<int32_t>;
    case DataType::kInt64:
      return load<int64_t>;
    case DataType::kFp32:
      return load<float>;
    case DataType::kFp64:
      return load<double>;
    case DataType::kBool:
    case DataType::kFp16:
    case DataType::kBf16:
    case DataType::kBytes:
      break;
  }
  return nullptr;
}

// Appends the top classes of one item; NaN counts as less than everything.
void append_top(const std::vector<double>& values, size_t classes,
                const std::vector<std::string>& labels, std::string& out) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto before = [&](size_t a, size_t b) {
    if (values[a] > values[b]) return true;
    if (values[b] > values[a]) return false;
    const bool a_known = values[a] == values[a], b_known = values[b] == values[b];
    return a_known != b_known ? a_known : a < b;
  };
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(classes),
                    order.end(), before);
  for (size_t i = 0; i < classes; ++i) {
    std::string text = fmt::format("{:f}:{}", values[order[i]], order[i]);
    if (order[i] < labels.size()) text += ":" + labels[order[i]];
    const auto size = static_cast<uint32_t>(text.size());
    out.append(reinterpret_cast<const char*>(&size), sizeof(size)).append(text);
  }
}

}  // namespace

absl::StatusOr<Tensor> classify(const Tensor& tensor, uint32_t classes, bool leading_batch,
                                const std::vector<std::string>& labels) {
  const Load load = load_for(tensor.datatype);
  if (load == nullptr) {
    return invalid("output {} of datatype {} cannot be classified", tensor.name,
                   name(tensor.datatype));
  }
  const bool leads = leading_batch && !tensor.shape.empty();
  const size_t items = leads ? static_cast<size_t>(tensor.shape.front()) : 1;
  const size_t total = element_count(tensor.shape), each = items == 0 ? 0 : total / items;
  const size_t size = element_size(tensor.datatype), top = std::min<size_t>(classes, each);
  if (tensor.data.bytes.size() != total * size) {
    return internal("output {} has {} bytes, its shape {} other", tensor.name,
                    tensor.data.bytes.size(), to_string(tensor.shape));
  }
  auto bytes = std::make_shared<std::string>();
  std::vector<double> values(each);
  for (size_t item = 0; item < items; ++item) {
    const std::byte* from = tensor.data.bytes.data() + item * each * size;
    for (size_t i = 0; i < each; ++i) values[i] = load(from + i * size);
    append_top(values, top, labels, *bytes);
  }
  Tensor result{tensor.name, DataType::kBytes, {}, {}};
  if (leads) result.shape.push_back(static_cast<int64_t>(items));
  result.shape.push_back(static_cast<int64_t>(top));
  const auto* start = reinterpret_cast<const std::byte*>(bytes->data());
  result.data = Payload{absl::MakeSpan(start, bytes->size()), std::move(bytes)};
  return result;
}

}  // namespace fermata::serve
