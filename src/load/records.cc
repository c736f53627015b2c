#include "load/records.h"

#include <limits>
#include <utility>

#include "base/document.h"
#include "base/file.h"
#include "base/status.h"
#include "load/json_tensor.h"

namespace fermata::load {
namespace {

constexpr size_t kLargestFile = size_t{1} << 30;

Label read_label(Reader label) {
  if (label.is_string()) return label.string();
  return label.integer(std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max());
}

Record read_record(Reader root) {
  Record record;
  ObjectReader fields = root.object();
  for (const Reader& input : fields["inputs"].list(1)) {
    record.inputs.push_back(read_tensor(input));
  }
  if (const Reader label = fields["label"]; label.present()) record.label = read_label(label);
  return record;
}

absl::StatusOr<Record> parse_record(std::string_view line) {
  ASSIGN_OR_RETURN(Document document, Document::parse(line, Document::Format::kJson));
  return document.read(read_record);
}

template <class T>
void append(T value, std::string& out) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_random(DataType datatype, Random& random, std::string& out) {
  switch (datatype) {
    case DataType::kFp32:
      return append(static_cast<float>(random.uniform()), out);
    case DataType::kFp64:
      return append(random.uniform(), out);
    case DataType::kFp16:
      return append(static_cast<uint16_t>(random.below(0x3c00)), out);
    case DataType::kBf16:
      return append(static_cast<uint16_t>(random.below(0x3f80)), out);
    case DataType::kBool:
      return append(static_cast<uint8_t>(random.below(2)), out);
    case DataType::kBytes:
      append(uint32_t{8}, out);
      for (int i = 0; i < 8; ++i) out += static_cast<char>('a' + random.below(26));
      return;
    default: {
      out += static_cast<char>(random.below(100));
      out.append(element_size(datatype) - 1, '\0');
    }
  }
}

absl::StatusOr<Tensor> random_tensor(const InputInfo& input, Random& random) {
  Shape shape = input.shape;
  if (!shape.empty() && shape[0] == -1) shape[0] = 1;
  for (const int64_t d : shape) {
    if (d >= 0) continue;
    return invalid(
        "input {} has a variable dimension, so its size cannot be made up; give a file with inputs",
        input.name);
  }
  std::string bytes;
  const int64_t count = element_count(shape);
  if (count > kMaxElements) return invalid("input {} has more than 2^31 elements", input.name);
  for (int64_t i = 0; i < count; ++i) append_random(input.datatype, random, bytes);
  return Tensor{input.name, input.datatype, std::move(shape), own(std::move(bytes))};
}

}  // namespace

absl::StatusOr<std::vector<Record>> parse_records(std::string_view text) {
  std::vector<Record> records;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    auto record = parse_record(line);
    if (!record.ok()) return invalid("line {}: {}", number, message(record.status()));
    records.push_back(*std::move(record));
  }
  if (records.empty()) return invalid("no line with inputs");
  return records;
}

absl::StatusOr<std::vector<Record>> load_records(const std::string& file) {
  ASSIGN_OR_RETURN(const std::string text, read_file(file, kLargestFile));
  auto records = parse_records(text);
  if (!records.ok()) return invalid("{}: {}", file, message(records.status()));
  return records;
}

absl::StatusOr<std::vector<Record>> random_records(const std::vector<InputInfo>& inputs,
                                                   size_t count, Random random) {
  std::vector<Record> records(count);
  for (Record& record : records) {
    for (const InputInfo& input : inputs) {
      ASSIGN_OR_RETURN(Tensor tensor, random_tensor(input, random));
      record.inputs.push_back(std::move(tensor));
    }
  }
  return records;
}

}  // namespace fermata::load
