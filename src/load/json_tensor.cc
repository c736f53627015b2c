#include "load/json_tensor.h"

#include <memory>
#include <optional>
#include <utility>

#include "base/status.h"
#include "model/json_data.h"

namespace fermata::load {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;

Payload own(std::string bytes) {
  auto owner = std::make_shared<const std::string>(std::move(bytes));
  return {{reinterpret_cast<const std::byte*>(owner->data()), owner->size()}, owner};
}

absl::Status read_name(element from, Tensor& tensor) {
  std::string_view text;
  if (from.get(text) != simdjson::SUCCESS || text.empty()) {
    return invalid("name: {}, expected a tensor's name", simdjson::minify(from));
  }
  tensor.name = text;
  return absl::OkStatus();
}

absl::Status read_shape(element from, Tensor& tensor) {
  array dimensions;
  bool good = from.get(dimensions) == simdjson::SUCCESS;
  if (good) {
    for (const element d : dimensions) {
      int64_t& size = tensor.shape.emplace_back(0);
      good = good && d.get(size) == simdjson::SUCCESS && size >= -1;
    }
  }
  if (good) return absl::OkStatus();
  return invalid("shape: {}, expected a list of whole numbers", simdjson::minify(from));
}

absl::Status read_datatype(element from, Tensor& tensor) {
  std::string_view text;
  std::optional<DataType> datatype;
  if (from.get(text) == simdjson::SUCCESS) datatype = parse_datatype(text);
  if (!datatype) return invalid("datatype: {}, expected such as FP32", simdjson::minify(from));
  tensor.datatype = *datatype;
  return absl::OkStatus();
}

absl::StatusOr<Tensor> read_tensor(element from) {
  object members;
  if (from.get(members) != simdjson::SUCCESS) {
    return invalid("tensor: {}, expected an object", simdjson::minify(from));
  }
  Tensor tensor;
  std::optional<element> name, shape, datatype, data;
  for (const auto& [key, value] : members) {
    if (key == "name")
      name = value;
    else if (key == "shape")
      shape = value;
    else if (key == "datatype")
      datatype = value;
    else if (key == "data")
      data = value;
    else
      return invalid("tensor: unknown member {}", key);
  }
  if (!name || !shape || !datatype || !data) {
    return invalid("tensor: {}, expected name, shape, datatype and data",
                   std::string(simdjson::minify(from)).substr(0, 80));
  }
  RETURN_IF_ERROR(read_name(*name, tensor));
  RETURN_IF_ERROR(read_shape(*shape, tensor));
  RETURN_IF_ERROR(read_datatype(*datatype, tensor));
  ASSIGN_OR_RETURN(tensor.data, read_json_data(*data, tensor));
  return tensor;
}

}  // namespace fermata::load
