#include "serve/call/classification.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "model/signature.h"
#include "serve/call/memory.h"

namespace fermata::serve {
namespace {

constexpr uint64_t kTextAtATime = 64 * 1024;

absl::Status no_room(const HeldBytes& held, uint64_t bytes) {
  return no_memory_for("the classification", held.bytes() + bytes, held, "ask for fewer classes");
}

// The answer as it grows.
struct Text {
  HeldBytes held;
  std::string bytes;

  // Room for what stands there and for as much again: texts grow by doubling.
  absl::Status hold() {
    const uint64_t wanted = 2 * bytes.size() + kTextAtATime;
    if (wanted <= held.bytes() + kTextAtATime) return absl::OkStatus();
    return held.grow_to(wanted) ? absl::OkStatus() : no_room(held, wanted - held.bytes());
  }
};

// Appends the top classes of one item; NaN counts as less than everything.
template <class T>
absl::Status append_top(const std::byte* from, std::vector<uint32_t>& order, size_t classes,
                        const std::vector<std::string>& labels, Text& text) {
  const auto value = [from](uint32_t i) {
    T element;
    std::memcpy(&element, from + i * sizeof(T), sizeof(T));
    return element;
  };
  const auto before = [&](uint32_t a, uint32_t b) {
    const T first = value(a), second = value(b);
    if (first > second) return true;
    if (second > first) return false;
    const bool a_known = first == first, b_known = second == second;
    return a_known != b_known ? a_known : a < b;
  };
  std::iota(order.begin(), order.end(), uint32_t{0});
  const auto top = order.begin() + static_cast<std::ptrdiff_t>(classes);
  if (top != order.end()) std::nth_element(order.begin(), top, order.end(), before);
  std::sort(order.begin(), top, before);
  for (size_t i = 0; i < classes; ++i) {
    RETURN_IF_ERROR(text.hold());
    const size_t start = text.bytes.size();
    text.bytes.append(sizeof(uint32_t), '\0');
    fmt::format_to(std::back_inserter(text.bytes), "{:f}:{}", static_cast<double>(value(order[i])),
                   order[i]);
    if (order[i] < labels.size()) text.bytes.append(":").append(labels[order[i]]);
    const auto size = static_cast<uint32_t>(text.bytes.size() - start - sizeof(uint32_t));
    std::memcpy(text.bytes.data() + start, &size, sizeof(size));
  }
  return absl::OkStatus();
}

using AppendTop = absl::Status (*)(const std::byte*, std::vector<uint32_t>&, size_t,
                                   const std::vector<std::string>&, Text&);

// Null: it has no order.
AppendTop append_top_for(DataType type) {
  switch (type) {
    case DataType::kUint8:
      return append_top<uint8_t>;
    case DataType::kUint16:
      return append_top<uint16_t>;
    case DataType::kUint32:
      return append_top<uint32_t>;
    case DataType::kUint64:
      return append_top<uint64_t>;
    case DataType::kInt8:
      return append_top<int8_t>;
    case DataType::kInt16:
      return append_top<int16_t>;
    case DataType::kInt32:
      return append_top<int32_t>;
    case DataType::kInt64:
      return append_top<int64_t>;
    case DataType::kFp32:
      return append_top<float>;
    case DataType::kFp64:
      return append_top<double>;
    case DataType::kBool:
    case DataType::kFp16:
    case DataType::kBf16:
    case DataType::kBytes:
      break;
  }
  return nullptr;
}

}  // namespace

uint64_t rows_of(const Tensor& tensor, uint32_t classes) {
  const int64_t leading = tensor.shape.empty() ? 1 : std::max<int64_t>(tensor.shape.front(), 1);
  const uint64_t elements = element_count(tensor.shape);
  return static_cast<uint64_t>(leading) > elements / std::max(classes, 1u)
             ? elements
             : classes * static_cast<uint64_t>(leading);
}

absl::StatusOr<Tensor> classify(const Tensor& tensor, uint32_t classes, bool leading_batch,
                                const std::vector<std::string>& labels, HeldBytes held) {
  const AppendTop append = append_top_for(tensor.datatype);
  if (append == nullptr) {
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
  if (items * top > kMostRows || each > UINT32_MAX) {
    return invalid("output {} has {} classes in all, expected at most {}: ask for its values",
                   tensor.name, items * top, kMostRows);
  }
  HeldBytes sorting = held.beside();
  if (!sorting.grow_to(each * sizeof(uint32_t))) return no_room(held, each * sizeof(uint32_t));
  std::vector<uint32_t> order(each);
  auto text = std::make_shared<Text>(Text{std::move(held), {}});
  for (size_t item = 0; item < items; ++item) {
    RETURN_IF_ERROR(
        append(tensor.data.bytes.data() + item * each * size, order, top, labels, *text));
  }
  Tensor result{tensor.name, DataType::kBytes, {}, {}};
  if (leads) result.shape.push_back(static_cast<int64_t>(items));
  result.shape.push_back(static_cast<int64_t>(top));
  const auto* start = reinterpret_cast<const std::byte*>(text->bytes.data());
  result.data = Payload{absl::MakeSpan(start, text->bytes.size()), std::move(text)};
  return result;
}

}  // namespace fermata::serve
