#include "model/npy.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>

#include "base/file.h"
#include "base/status.h"
#include "model/signature.h"

namespace fermata {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMostBytes = size_t{16} << 30;
constexpr size_t kMostDimensions = 32;  // NumPy's own limit of its time

struct Header {
  std::string descr;
  bool fortran_order = false;
  Shape shape;
};

// Reads the header's Python literal: {'descr': '<f4', 'fortran_order': False,
// 'shape': (3, 4), }. A getter that finds something else returns none.
class Literal {
 public:
  explicit Literal(std::string_view text) : rest_(text) {}

  bool take(char c) {
    skip_spaces();
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  std::optional<std::string> string() {
    skip_spaces();
    if (rest_.empty() || (rest_.front() != '\'' && rest_.front() != '"')) return std::nullopt;
    const size_t end = rest_.find(rest_.front(), 1);
    if (end == std::string_view::npos) return std::nullopt;
    std::string text(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return text;
  }

  std::optional<bool> boolean() {
    skip_spaces();
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (rest_.substr(0, word.size()) != word) continue;
      rest_.remove_prefix(word.size());
      return value;
    }
    return std::nullopt;
  }

  std::optional<Shape> tuple() {
    if (!take('(')) return std::nullopt;
    Shape shape;
    while (!take(')')) {
      skip_spaces();
      int64_t dim = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), dim);
      if (error != std::errc() || dim < 0 || shape.size() == kMostDimensions) return std::nullopt;
      rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
      if (!rest_.empty() && rest_.front() == 'L') rest_.remove_prefix(1);  // of Python 2
      shape.push_back(dim);
      if (!take(',') && (skip_spaces(), rest_.empty() || rest_.front() != ')')) {
        return std::nullopt;
      }
    }
    return shape;
  }

  bool at_end() { return skip_spaces(), rest_.empty(); }

 private:
  void skip_spaces() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\n"), rest_.size()));
  }
  std::string_view rest_;
};

std::optional<Header> parse_header(std::string_view text) {
  Literal literal(text);
  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<Shape> shape;
  if (!literal.take('{')) return std::nullopt;
  while (!literal.take('}')) {
    const std::optional<std::string> key = literal.string();
    if (!key || !literal.take(':')) return std::nullopt;
    const bool read = *key == "descr"           ? (descr = literal.string()).has_value()
                      : *key == "fortran_order" ? (fortran_order = literal.boolean()).has_value()
                      : *key == "shape"         ? (shape = literal.tuple()).has_value()
                                                : false;
    if (!read) return std::nullopt;
    if (!literal.take(',')) {
      if (!literal.take('}')) return std::nullopt;
      break;
    }
  }
  if (!descr || !fortran_order || !shape || !literal.at_end()) return std::nullopt;
  return Header{*descr, *fortran_order, *shape};
}

struct Code {
  std::string_view code;
  DataType type;
};
constexpr std::array<Code, 12> kCodes = {{
    {"b1", DataType::kBool},
    {"u1", DataType::kUint8},
    {"u2", DataType::kUint16},
    {"u4", DataType::kUint32},
    {"u8", DataType::kUint64},
    {"i1", DataType::kInt8},
    {"i2", DataType::kInt16},
    {"i4", DataType::kInt32},
    {"i8", DataType::kInt64},
    {"f2", DataType::kFp16},
    {"f4", DataType::kFp32},
    {"f8", DataType::kFp64},
}};

std::optional<DataType> datatype_of(std::string_view descr) {
  const std::string_view code = descr.substr(std::min<size_t>(descr.size(), 1));
  const auto entry =
      std::find_if(kCodes.begin(), kCodes.end(), [code](const Code& e) { return e.code == code; });
  if (entry == kCodes.end()) return std::nullopt;
  const bool one_byte = element_size(entry->type) == 1;
  if (descr[0] != '<' && !(one_byte && descr[0] == '|')) return std::nullopt;
  return entry->type;
}

// None where the product overflows.
std::optional<size_t> byte_count(const Shape& shape, DataType type) {
  size_t bytes = element_size(type);
  for (const int64_t dim : shape) {
    if (dim == 0) return 0;
    if (__builtin_mul_overflow(bytes, static_cast<size_t>(dim), &bytes)) return std::nullopt;
  }
  return bytes;
}

// Where the header's text lies.
struct Extent {
  size_t start = 0, end = 0;
};

absl::StatusOr<Extent> find_header(std::string_view bytes, std::string_view source) {
  if (bytes.substr(0, kMagic.size()) != kMagic || bytes.size() < kMagic.size() + 2) {
    return invalid("{}: is no .npy file, expected an array that numpy.save wrote", source);
  }
  const auto major = static_cast<uint8_t>(bytes[kMagic.size()]);
  if (major < 1 || major > 3) {
    return invalid("{}: has .npy format {}, expected 1 to 3", source, major);
  }
  const size_t width = major == 1 ? 2 : 4;
  Extent extent{.start = kMagic.size() + 2 + width};
  uint32_t length = 0;  // little-endian, as the machine is
  if (bytes.size() >= extent.start) std::memcpy(&length, &bytes[kMagic.size() + 2], width);
  if (bytes.size() < extent.start || bytes.size() - extent.start < length) {
    return invalid("{}: is cut off in its header", source);
  }
  extent.end = extent.start + length;
  return extent;
}

// What the header says of the data.
struct Layout {
  size_t start = 0;  // of the data
  DataType type = DataType::kFp32;
  Shape shape;
  std::optional<size_t> bytes;  // none: more than can be counted
};

absl::StatusOr<Layout> find_layout(std::string_view bytes, std::string_view source) {
  ASSIGN_OR_RETURN(const Extent extent, find_header(bytes, source));
  const std::string_view text = bytes.substr(extent.start, extent.end - extent.start);
  const std::optional<Header> header = parse_header(text);
  if (!header) {
    return invalid(
        "{}: its header is not {{'descr': '<f4', 'fortran_order': False, 'shape': (..)}}"
        ": expected an array of plain numbers",
        source);
  }
  const std::optional<DataType> type = datatype_of(header->descr);
  if (!type) {
    return invalid(
        "{}: its elements are '{}', expected little-endian numbers such as '<f4' "
        "or '<i8': save array.astype('<f4')",
        source, header->descr);
  }
  if (header->fortran_order && header->shape.size() > 1) {
    return invalid("{}: lies column by column, expected rows: save numpy.ascontiguousarray(array)",
                   source);
  }
  return Layout{extent.end, *type, header->shape, byte_count(header->shape, *type)};
}

}  // namespace

absl::StatusOr<Tensor> parse_npy(std::string bytes, std::string_view source) {
  ASSIGN_OR_RETURN(const Layout layout, find_layout(bytes, source));
  const size_t found = bytes.size() - layout.start;
  if (layout.bytes != found) {
    return invalid("{}: has {} bytes of data, expected {} for shape {} of {}", source, found,
                   layout.bytes ? std::to_string(*layout.bytes) : "far more",
                   to_string(layout.shape), name(layout.type));
  }
  const auto owner = std::make_shared<const std::string>(std::move(bytes));
  const auto* data = reinterpret_cast<const std::byte*>(owner->data()) + layout.start;
  return Tensor{std::string(source), layout.type, layout.shape, {{data, found}, owner}};
}

absl::StatusOr<Tensor> read_npy(const std::string& file) {
  const std::string source = file == "-" ? "standard input" : file;
  const auto limit = [&source](std::string_view start) -> absl::StatusOr<size_t> {
    ASSIGN_OR_RETURN(const Layout layout, find_layout(start, source));
    return layout.start + std::min(layout.bytes.value_or(kMostBytes), kMostBytes);
  };
  ASSIGN_OR_RETURN(std::string bytes, read_file(file, limit));
  return parse_npy(std::move(bytes), source);
}

absl::StatusOr<std::string> npy_bytes(const Tensor& tensor) {
  const auto entry = std::find_if(kCodes.begin(), kCodes.end(),
                                  [&](const Code& e) { return e.type == tensor.datatype; });
  if (entry == kCodes.end()) {
    return invalid("tensor '{}' has datatype {}, which array files do not have", tensor.name,
                   name(tensor.datatype));
  }
  std::string header = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': (",
                                   element_size(tensor.datatype) == 1 ? '|' : '<', entry->code);
  for (const int64_t dim : tensor.shape) header += fmt::format("{}, ", dim);
  header += "), }";
  // Data starts at a multiple of 64, the header ends in a newline.
  const size_t before = kMagic.size() + 4;
  header.append(63 - (before + header.size()) % 64, ' ');
  header += '\n';
  std::string bytes(kMagic);
  bytes += {'\x01', '\x00', static_cast<char>(header.size() & 255),
            static_cast<char>(header.size() >> 8)};
  bytes += header;
  bytes.append(reinterpret_cast<const char*>(tensor.data.bytes.data()), tensor.data.bytes.size());
  return bytes;
}

absl::Status write_npy(const Tensor& tensor, const std::string& file) {
  ASSIGN_OR_RETURN(const std::string bytes, npy_bytes(tensor));
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out << bytes;
  out.close();
  return out ? absl::OkStatus() : invalid("{}: cannot be written", file);
}

}  // namespace fermata
