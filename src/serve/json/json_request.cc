#include "serve/json/json_request.h"

#include <simdjson.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "base/status.h"
#include "model/json_data.h"
#include "model/request_limits.h"
#include "serve/call/memory.h"
#include "serve/call/shapes.h"
#include "serve/json/json_fault.h"
#include "serve/json/json_weight.h"

namespace fermata::serve {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::element_type;
using simdjson::dom::object;

constexpr size_t kKeptParser = 256 * 1024;  // texts up to so many bytes share one for each thread
constexpr size_t kPart = 320;               // of an input or an output, beside its data
constexpr size_t kMostOwed = 64 * 1024;

constexpr std::string_view kInBinary =
    "send tensors in the binary part (binary_data_size), or less in one request";

std::string_view kind(element e) {
  switch (e.type()) {
    case element_type::ARRAY:
      return "a list";
    case element_type::OBJECT:
      return "an object";
    case element_type::STRING:
      return "a string";
    case element_type::BOOL:
      return "a boolean";
    case element_type::NULL_VALUE:
      return "null";
    default:
      return "a number";
  }
}

template <class T>
absl::Status get(element from, std::string_view where, std::string_view expected, T& out) {
  if (from.get(out) == simdjson::SUCCESS) return absl::OkStatus();
  return invalid("{} is {}, expected {}", where, kind(from), expected);
}

// Calls read(key, value) for each member that is not null. One that comes twice is an error, for
// what of it is meant.
template <class Read>
absl::Status each_member(element from, std::string_view where,
                         std::span<const std::string_view> known, Read read) {
  object members;
  RETURN_IF_ERROR(get(from, where, "an object", members));
  uint32_t seen = 0;
  for (const auto& [key, value] : members) {
    const auto found = std::find(known.begin(), known.end(), key);
    if (found == known.end() || value.is_null()) continue;
    const uint32_t bit = 1u << (found - known.begin());
    if ((seen & bit) != 0) return invalid("{} has {} twice", where, *found);
    seen |= bit;
    RETURN_IF_ERROR(read(*found, value));
  }
  return absl::OkStatus();
}

constexpr std::string_view kRequestMembers[] = {"id", "parameters", "inputs", "outputs"};
constexpr std::string_view kInputMembers[] = {"name", "shape", "datatype", "data", "parameters"};
constexpr std::string_view kOutputMembers[] = {"name", "parameters"};

// Calls set(name, value) for each parameter; values that are lists, objects or
// null belong to no parameter of the protocol.
template <class Set>
absl::Status each_parameter(element from, std::string_view where, Set set) {
  object parameters;
  RETURN_IF_ERROR(get(from, where, "an object", parameters));
  for (const auto& [key, value] : parameters) {
    switch (value.type()) {
      case element_type::BOOL:
        RETURN_IF_ERROR(set(key, bool(value)));
        break;
      case element_type::INT64:
        RETURN_IF_ERROR(set(key, int64_t(value)));
        break;
      case element_type::UINT64:
        RETURN_IF_ERROR(set(key, uint64_t(value)));
        break;
      case element_type::DOUBLE:
        RETURN_IF_ERROR(set(key, double(value)));
        break;
      case element_type::STRING:
        RETURN_IF_ERROR(set(key, std::string_view(value)));
        break;
      default:
        break;
    }
  }
  return absl::OkStatus();
}

absl::Status read_shape(element from, Tensor& tensor) {
  array dims;
  RETURN_IF_ERROR(get(from, "the shape of an input", "a list of whole numbers", dims));
  if (dims.size() > kMostDimensions) {
    return invalid("the shape of an input has {} dimensions, expected at most {}", dims.size(),
                   kMostDimensions);
  }
  tensor.shape.clear();
  tensor.shape.reserve(dims.size());
  for (const element dim : dims) {
    RETURN_IF_ERROR(
        get(dim, "a dimension of an input's shape", "a whole number", tensor.shape.emplace_back()));
  }
  return absl::OkStatus();
}

absl::Status read_datatype(element from, Tensor& tensor) {
  std::string_view spelled;
  RETURN_IF_ERROR(get(from, "the datatype of an input", "a string", spelled));
  const auto type = parse_datatype(spelled);
  if (!type) return invalid("\"{}\" is not a datatype, expected such as FP32", spelled);
  tensor.datatype = *type;
  return absl::OkStatus();
}

// Walks one request; `binary_` moves over the binary part as inputs claim it.
class Decoder {
 public:
  Decoder(const InferBody& body, const SharedMemory& regions, HeldBytes& held)
      : body_(body),
        regions_(regions),
        held_(held),
        binary_(body.json_length.value_or(body.bytes.size())) {}

  absl::StatusOr<InferCall> decode(element root) {
    bool has_inputs = false;
    RETURN_IF_ERROR(each_member(root, "the request", kRequestMembers, [&](auto key, element value) {
      if (key == "inputs") has_inputs = true;
      return read_member(key, value);
    }));
    const auto& frame = call_.request.frame;
    const bool is_frame = frame == nullptr || !(frame->hello || frame->leave);
    if (!has_inputs && is_frame) return invalid("the request has no inputs");
    if (binary_ != body_.bytes.size()) {
      return invalid("the body has {} bytes after its last tensor, expected none",
                     body_.bytes.size() - binary_);
    }
    RETURN_IF_ERROR(hold(0, true));
    return std::move(call_);
  }

 private:
  absl::Status hold(size_t bytes, bool all = false) {
    owed_ += bytes;
    if (owed_ < kMostOwed && !all) return absl::OkStatus();
    const size_t owed = std::exchange(owed_, 0);
    if (held_.grow_by(owed)) return absl::OkStatus();
    return no_memory_for("the parts of the request", held_.bytes() + owed, held_, kInBinary);
  }

  absl::Status read_member(std::string_view key, element value) {
    if (key == "id") {
      std::string_view id;
      RETURN_IF_ERROR(get(value, "id", "a string", id));
      RETURN_IF_ERROR(hold(id.size()));
      RETURN_IF_ERROR(set_id(id, call_));
    } else if (key == "parameters") {
      RETURN_IF_ERROR(each_parameter(value, "parameters", [this](auto name, ParameterValue v) {
        return set_request_parameter(name, v, call_);
      }));
      return hold(call_.request.parameters.size());
    } else if (key == "inputs") {
      array inputs;
      RETURN_IF_ERROR(get(value, "inputs", "a list", inputs));
      for (const element input : inputs) RETURN_IF_ERROR(read_input(input));
    } else if (key == "outputs") {
      array outputs;
      RETURN_IF_ERROR(get(value, "outputs", "a list", outputs));
      for (const element output : outputs) RETURN_IF_ERROR(read_output(output));
      RETURN_IF_ERROR(check_outputs(call_));
    }
    return absl::OkStatus();
  }

  absl::Status read_input(element from) {
    Tensor tensor;
    TensorParameters parameters;
    std::optional<element> data, settings;
    bool has_shape = false, has_datatype = false;
    const auto read = [&](std::string_view key, element value) -> absl::Status {
      if (key == "name") {
        std::string_view text;
        RETURN_IF_ERROR(get(value, "the name of an input", "a string", text));
        tensor.name = text;
      } else if (key == "shape") {
        has_shape = true;
        return read_shape(value, tensor);
      } else if (key == "datatype") {
        has_datatype = true;
        return read_datatype(value, tensor);
      } else {
        (key == "data" ? data : settings) = value;
      }
      return absl::OkStatus();
    };
    RETURN_IF_ERROR(each_member(from, "an input", kInputMembers, read));
    if (tensor.name.empty()) return invalid("an input has no name");
    if (!has_shape) return invalid("input {} has no shape", tensor.name);
    if (!has_datatype) return invalid("input {} has no datatype", tensor.name);
    RETURN_IF_ERROR(check_shape(tensor));
    if (settings) RETURN_IF_ERROR(read_settings(*settings, tensor.name, parameters));
    ASSIGN_OR_RETURN(tensor.data, find_data(tensor, parameters, data));
    const size_t copies = tensor.datatype == DataType::kBytes ? 2 : 1;  // texts grow by doubling
    RETURN_IF_ERROR(hold(kPart + tensor.name.size() + sizeof(int64_t) * tensor.shape.size() +
                         (data ? copies * tensor.data.bytes.size() : 0)));
    call_.request.inputs.push_back(std::move(tensor));
    return absl::OkStatus();
  }

  static absl::Status read_settings(element from, std::string_view tensor,
                                    TensorParameters& parameters) {
    RETURN_IF_ERROR(
        each_parameter(from, "the parameters of a tensor", [&](auto name, ParameterValue value) {
          return set_tensor_parameter(tensor, name, value, parameters);
        }));
    return check_tensor_parameters(tensor, parameters);
  }

  // Where an input's data is: exactly one of shared memory, the binary part, JSON.
  absl::StatusOr<Payload> find_data(const Tensor& tensor, const TensorParameters& parameters,
                                    const std::optional<element>& data) {
    const int places = int(parameters.shared_memory.has_value()) +
                       int(parameters.binary_data_size.has_value()) + int(data.has_value());
    if (places != 1) {
      return invalid(
          "input {} has its data in {} places, expected one of data, binary_data_size "
          "and shared_memory_region",
          tensor.name, places);
    }
    if (parameters.shared_memory) {
      return regions_.input_of(tensor, *parameters.shared_memory, call_);
    }
    if (data) return read_json_data(*data, tensor);
    return take_binary(tensor.name, *parameters.binary_data_size);
  }

  absl::StatusOr<Payload> take_binary(std::string_view tensor, uint64_t size) {
    const size_t left = body_.bytes.size() - binary_;
    if (size > left) {
      return invalid("input {}: binary_data_size is {}, but {} bytes of the body are left", tensor,
                     size, left);
    }
    const auto* start = reinterpret_cast<const std::byte*>(body_.bytes.data()) + binary_;
    binary_ += size;
    return Payload{absl::MakeSpan(start, size), body_.owner};
  }

  absl::Status read_output(element from) {
    std::string_view name;
    std::optional<element> settings;
    RETURN_IF_ERROR(each_member(from, "an output", kOutputMembers,
                                [&](auto key, element value) -> absl::Status {
                                  if (key == "name")
                                    return get(value, "the name of an output", "a string", name);
                                  settings = value;
                                  return absl::OkStatus();
                                }));
    RETURN_IF_ERROR(hold(kPart + name.size()));
    TensorParameters parameters;
    if (settings) RETURN_IF_ERROR(read_settings(*settings, name, parameters));
    return add_output(std::string(name), std::move(parameters), regions_, call_);
  }

  const InferBody& body_;
  const SharedMemory& regions_;
  HeldBytes& held_;
  size_t owed_ = 0;  // what held_ has not grown by yet
  size_t binary_;
  InferCall call_;
};

}  // namespace

absl::StatusOr<InferCall> decode_json_infer(const InferBody& body, const SharedMemory& regions,
                                            HeldBytes& held) {
  const size_t length = body.json_length.value_or(body.bytes.size());
  if (length > body.bytes.size()) {
    return invalid("Inference-Header-Content-Length is {}, but the body has {} bytes", length,
                   body.bytes.size());
  }
  // The parser reads some bytes beyond its text; where the body has none, it copies.
  const bool copy = body.bytes.size() - length < simdjson::SIMDJSON_PADDING;
  thread_local simdjson::dom::parser kept;
  // A parser has fourteen bytes of its own for each of the longest text that it ever read, and
  // touches those that the text's values need.
  simdjson::dom::parser passing;
  const bool is_long = length > kKeptParser;
  simdjson::dom::parser& parser = is_long ? passing : kept;
  HeldBytes parsing = held.beside();
  const std::string_view text = body.bytes.substr(0, length);
  if (const size_t weight = is_long ? infer_json_weight(text) : 0; !parsing.grow_by(weight)) {
    return no_memory_for("parsing the JSON", held.bytes() + weight, held, kInBinary);
  }
  element root;
  if (const auto failed = parser.parse(body.bytes.data(), length, copy).get(root);
      failed != simdjson::SUCCESS) {
    const std::string fault = json_fault(text);
    return invalid("the request is not JSON: {}",
                   fault.empty() ? simdjson::error_message(failed) : fault);
  }
  return Decoder(body, regions, held).decode(root);
}

}  // namespace fermata::serve
