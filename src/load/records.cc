#include "load/records.h"

#include <fmt/ranges.h>
#include <simdjson.h>

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/status.h"
#include "load/json_tensor.h"
#include "model/npy.h"
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

// Whose array it is: "INPUT=FILE", or the only one's.
absl::StatusOr<const InputInfo*> input_of(std::string_view part,
                                          const std::vector<InputInfo>& inputs) {
  const size_t equals = part.find('=');
  if (equals == part.npos && inputs.size() == 1) return &inputs.front();
  std::vector<std::string_view> names;
  for (const InputInfo& input : inputs) {
    if (equals != part.npos && part.substr(0, equals) == input.name) return &input;
    names.push_back(input.name);
  }
  return invalid("'{}', expected INPUT=FILE.npy with an input of the model: {}", part,
                 fmt::join(names, ", "));
}

// Of a model that batches, the first dimension of whose inputs is free, a row is an item.
bool has_batch_dimension(const Tensor& array, const InputInfo& input) {
  return input.shape.size() == array.shape.size() && !input.shape.empty() && input.shape[0] == -1;
}

absl::Status check_rows(const Tensor& array, const InputInfo& input, const std::string& file) {
  if (array.shape.empty() || array.shape[0] == 0) return invalid("{} has no rows", file);
  if (array.datatype != input.datatype) {
    return invalid("{} has {}, input {} takes {}", file, name(array.datatype), input.name,
                   name(input.datatype));
  }
  const bool batches = has_batch_dimension(array, input);
  Shape row(array.shape.begin() + 1, array.shape.end());
  const Shape wanted(input.shape.begin() + (batches ? 1 : 0), input.shape.end());
  const bool fits = std::equal(row.begin(), row.end(), wanted.begin(), wanted.end(),
                               [](int64_t d, int64_t w) { return w == -1 || d == w; });
  if (fits) return absl::OkStatus();
  return invalid("a row of {} has the shape {}, input {} takes {}", file, to_string(row),
                 input.name, to_string(wanted));
}

// A handle into the array's bytes.
Tensor row_of(const Tensor& array, size_t row, const InputInfo& input) {
  const size_t bytes = array.data.bytes.size() / static_cast<size_t>(array.shape[0]);
  Tensor tensor{input.name,
                array.datatype,
                array.shape,
                {array.data.bytes.subspan(row * bytes, bytes), array.data.owner}};
  if (has_batch_dimension(array, input)) {
    tensor.shape[0] = 1;
  } else {
    tensor.shape.erase(tensor.shape.begin());
  }
  return tensor;
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

bool is_npy(std::string_view inputs) { return inputs.ends_with(".npy"); }

absl::StatusOr<std::vector<Record>> npy_records(std::string_view text,
                                                const std::vector<InputInfo>& inputs) {
  std::vector<Record> records;
  std::set<std::string_view> given;
  for (const absl::string_view piece :
       absl::StrSplit(absl::string_view(text.data(), text.size()), ',')) {
    const std::string_view part = view(piece);
    ASSIGN_OR_RETURN(const InputInfo* input, input_of(part, inputs));
    if (!given.insert(input->name).second) return invalid("{} gives {} twice", text, input->name);
    const std::string file(part.substr(part.find('=') + 1));  // npos + 1 is 0
    ASSIGN_OR_RETURN(const Tensor array, read_npy(file));
    RETURN_IF_ERROR(check_rows(array, *input, file));
    const auto rows = static_cast<size_t>(array.shape[0]);
    if (records.empty()) records.resize(rows);
    if (records.size() != rows) {
      return invalid("{} has {} rows, the array before {}", file, rows, records.size());
    }
    for (size_t r = 0; r < rows; ++r) records[r].inputs.push_back(row_of(array, r, *input));
  }
  for (const InputInfo& input : inputs) {
    if (!given.contains(input.name)) return invalid("{} leaves out {}", text, input.name);
  }
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
