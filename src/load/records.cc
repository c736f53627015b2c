#include "load/records.h"

#include <simdjson.h>

#include <utility>

#include "base/file.h"
#include "base/status.h"
#include "load/json_tensor.h"
#include "model/signature.h"

namespace fermata::load {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;

constexpr uint64_t kMostElements = uint64_t{1} << 28;
constexpr size_t kLargestFile = size_t{1} << 30;

absl::StatusOr<Label> read_label(element from) {
  if (std::string_view text; from.get(text) == simdjson::SUCCESS) return std::string(text);
  if (int64_t number; from.get(number) == simdjson::SUCCESS) return number;
  return invalid("label: {}, expected a whole number or a string", simdjson::minify(from));
}

absl::Status read_member(std::string_view key, element value, Record& record) {
  if (key == "label") {
    ASSIGN_OR_RETURN(record.label, read_label(value));
    return absl::OkStatus();
  }
  if (key != "inputs") return invalid("unknown member {}, expected inputs or label", key);
  array inputs;
  if (value.get(inputs) != simdjson::SUCCESS) return invalid("inputs: expected a list");
  for (const element input : inputs) {
    ASSIGN_OR_RETURN(record.inputs.emplace_back(), read_tensor(input));
  }
  return absl::OkStatus();
}

absl::StatusOr<Record> parse_record(simdjson::dom::parser& parser, std::string_view line) {
  element root;
  object members;
  if (const auto problem = parser.parse(line).get(root)) {
    return invalid("not JSON ({})", simdjson::error_message(problem));
  }
  if (root.get(members) != simdjson::SUCCESS) return invalid("expected an object");
  Record record;
  for (const auto& [key, value] : members) RETURN_IF_ERROR(read_member(key, value, record));
  if (record.inputs.empty()) return invalid("no inputs, expected at least one");
  return record;
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
  const uint64_t count = element_count(shape);
  if (count > kMostElements) return invalid("input {} is too large to make up", input.name);
  for (uint64_t i = 0; i < count; ++i) append_random(input.datatype, random, bytes);
  return Tensor{input.name, input.datatype, std::move(shape), own(std::move(bytes))};
}

}  // namespace

absl::StatusOr<std::vector<Record>> parse_records(std::string_view text) {
  std::vector<Record> records;
  simdjson::dom::parser parser;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    auto record = parse_record(parser, line);
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
