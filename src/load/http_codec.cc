#include "load/http_codec.h"

#include <simdjson.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/document.h"
#include "base/status.h"
#include "load/explain.h"
#include "load/json_tensor.h"
#include "model/json_data.h"
#include "model/tensor_values.h"

namespace fermata::load {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;

std::string_view bytes_of(const Payload& payload) {
  return {reinterpret_cast<const char*>(payload.bytes.data()), payload.bytes.size()};
}

std::string model_path(std::string_view model, std::string_view version) {
  return version.empty() ? fmt::format("/v2/models/{}", model)
                         : fmt::format("/v2/models/{}/versions/{}", model, version);
}

Json infer_header(const Question& question) {
  Json parameters = {{"binary_data_output", true}};
  if (question.timeout) parameters[std::string(kTimeout)] = question.timeout->nanos() / 1000;
  if (question.explain) parameters[std::string(kExplain)] = true;
  Json inputs = Json::array();
  for (const Tensor& t : question.inputs) {
    inputs.push_back({{"name", t.name},
                      {"shape", t.shape},
                      {"datatype", name(t.datatype)},
                      {"parameters", {{"binary_data_size", t.data.bytes.size()}}}});
  }
  return {{"parameters", std::move(parameters)}, {"inputs", std::move(inputs)}};
}

double number(element from) {
  double value = 0;
  return from.get(value) == simdjson::SUCCESS ? value : 0;
}

// Absent members and parameters leave a zero.
Why read_why(element root) {
  const auto parameter = [&](std::string_view name) {
    element value;
    return root["parameters"][name].get(value) == simdjson::SUCCESS ? number(value) : 0;
  };
  return {static_cast<uint32_t>(parameter(kBatchItems)),
          Duration::from_seconds(parameter(kQueueingUs) * 1e-6),
          Duration::from_seconds(parameter(kRunUs) * 1e-6)};
}

absl::StatusOr<element> member(element from, std::string_view name) {
  element value;
  if (from[name].get(value) != simdjson::SUCCESS) return invalid("{} is missing", name);
  return value;
}

// Name, shape and datatype; members that others may have added are left alone.
absl::StatusOr<Tensor> read_head(element from) {
  Tensor tensor;
  ASSIGN_OR_RETURN(const element name, member(from, "name"));
  ASSIGN_OR_RETURN(const element shape, member(from, "shape"));
  ASSIGN_OR_RETURN(const element datatype, member(from, "datatype"));
  RETURN_IF_ERROR(read_name(name, tensor));
  RETURN_IF_ERROR(read_shape(shape, tensor));
  RETURN_IF_ERROR(read_datatype(datatype, tensor));
  return tensor;
}

// `binary`: what of the body's binary part earlier outputs have left.
absl::StatusOr<Tensor> read_output(element from, std::string_view& binary) {
  ASSIGN_OR_RETURN(Tensor tensor, read_head(from));
  uint64_t size = 0;
  if (from["parameters"]["binary_data_size"].get(size) != simdjson::SUCCESS) {
    ASSIGN_OR_RETURN(const element data, member(from, "data"));
    ASSIGN_OR_RETURN(tensor.data, read_json_data(data, tensor));
    return tensor;
  }
  if (size > binary.size()) {
    return invalid("output {} is said to have {} bytes, {} are left", tensor.name, size,
                   binary.size());
  }
  tensor.data = own(std::string(binary.substr(0, size)));
  binary.remove_prefix(size);
  return tensor;
}

absl::Status read_outputs(element root, std::string_view binary, std::vector<Tensor>& outputs) {
  ASSIGN_OR_RETURN(const element list, member(root, "outputs"));
  array elements;
  if (list.get(elements) != simdjson::SUCCESS) return invalid("outputs are no list");
  for (const element output : elements) {
    ASSIGN_OR_RETURN(outputs.emplace_back(), read_output(output, binary));
  }
  return absl::OkStatus();
}

absl::StatusCode code_of(int http_status) {
  switch (http_status) {
    case 400:
      return absl::StatusCode::kInvalidArgument;
    case 404:
      return absl::StatusCode::kNotFound;
    case 429:
      return absl::StatusCode::kResourceExhausted;
    case 499:
      return absl::StatusCode::kCancelled;
    case 500:
      return absl::StatusCode::kInternal;
    case 501:
      return absl::StatusCode::kUnimplemented;
    case 503:
      return absl::StatusCode::kUnavailable;
    case 504:
      return absl::StatusCode::kDeadlineExceeded;
    default:
      return absl::StatusCode::kUnknown;
  }
}

absl::Status error_of(const HttpResponse& response) {
  simdjson::dom::parser parser;
  std::string_view said;
  if (parser.parse(response.body)["error"].get(said) == simdjson::SUCCESS) {
    return error(code_of(response.status), "{}", said);
  }
  return error(code_of(response.status), "HTTP status {}", response.status);
}

absl::Status read_reply(const HttpResponse& response, bool want_outputs, bool explain,
                        Answer& answer) {
  const std::string_view body = response.body;
  const size_t json_bytes = response.json_bytes.value_or(body.size());
  if (json_bytes > body.size()) {
    return invalid("its JSON is said to have {} bytes, its body has {}", json_bytes, body.size());
  }
  simdjson::dom::parser parser;
  element root;
  if (const auto problem = parser.parse(body.substr(0, json_bytes)).get(root)) {
    return invalid("not JSON ({})", simdjson::error_message(problem));
  }
  if (explain) answer.why = read_why(root);
  if (!want_outputs) return absl::OkStatus();
  return read_outputs(root, body.substr(json_bytes), answer.outputs);
}

}  // namespace

std::string encode_infer(std::string_view host, const Question& question) {
  const std::string header = infer_header(question).dump();
  const size_t size = header.size() + payload_bytes(question.inputs);
  std::string request = fmt::format(
      "POST {}/infer HTTP/1.1\r\nHost: {}\r\nContent-Type: application/octet-stream\r\n"
      "Inference-Header-Content-Length: {}\r\nContent-Length: {}\r\n\r\n",
      model_path(question.service, question.version), host, header.size(), size);
  request += header;
  for (const Tensor& t : question.inputs) request += bytes_of(t.data);
  return request;
}

std::string encode_metadata(std::string_view host, std::string_view model,
                            std::string_view version) {
  return fmt::format("GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", model_path(model, version), host);
}

Answer decode_infer(const HttpResponse& response, bool want_outputs, bool explain) {
  if (response.status != 200) return {.status = error_of(response)};
  if (!want_outputs && !explain) return {};
  Answer answer;
  if (const absl::Status read = read_reply(response, want_outputs, explain, answer); !read.ok()) {
    answer.status = internal("reply: {}", message(read));
  }
  return answer;
}

absl::StatusOr<std::vector<InputInfo>> decode_metadata(const HttpResponse& response) {
  if (response.status != 200) return error_of(response);
  simdjson::dom::parser parser;
  array inputs;
  if (parser.parse(response.body)["inputs"].get(inputs) != simdjson::SUCCESS) {
    return internal("the model's metadata has no list of inputs");
  }
  std::vector<InputInfo> infos;
  for (const element input : inputs) {
    ASSIGN_OR_RETURN(Tensor head, read_head(input));
    infos.push_back({std::move(head.name), head.datatype, std::move(head.shape)});
  }
  return infos;
}

}  // namespace fermata::load
