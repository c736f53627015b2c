#include "load/http_codec.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/document.h"
#include "base/status.h"
#include "load/explain.h"
#include "load/json_tensor.h"

namespace fermata::load {
namespace {

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

// What a reply's JSON says, before its binary part is cut up.
struct Header {
  struct Output {
    Tensor tensor;
    std::string json_data;
    std::optional<size_t> binary_bytes;
  };
  std::vector<Output> outputs;
  Why why;
  std::string error;
};

Header::Output read_output(Reader at) {
  Header::Output output;
  for (const auto& [field, value] : at.map()) {
    if (field == "name") output.tensor.name = value.string();
    if (field == "shape") output.tensor.shape = read_shape(value);
    if (field == "datatype") output.tensor.datatype = read_datatype(value);
    if (field == "parameters") {
      for (const auto& [parameter, size] : value.map()) {
        if (parameter == "binary_data_size") output.binary_bytes = size.integer(0, kMaxElements);
      }
    }
  }
  for (const auto& [field, value] : at.map()) {
    if (field == "data") append_elements(value, output.tensor.datatype, output.json_data);
  }
  return output;
}

// Fields that others may have added are left alone.
Header read_header(Reader root) {
  Header header;
  for (const auto& [field, value] : root.map()) {
    if (field == "error") header.error = value.string();
    if (field == "outputs") {
      for (const Reader& output : value.list()) header.outputs.push_back(read_output(output));
    }
    if (field != "parameters") continue;
    for (const auto& [parameter, v] : value.map()) {
      if (parameter == kBatchItems) header.why.batch_items = v.integer(0, UINT32_MAX);
      if (parameter == kQueueingUs) header.why.queueing = Duration::from_seconds(v.number() * 1e-6);
      if (parameter == kRunUs) header.why.run = Duration::from_seconds(v.number() * 1e-6);
    }
  }
  return header;
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
  auto document = Document::parse(response.body, Document::Format::kJson);
  if (document.ok()) {
    auto header = document->read(read_header);
    if (header.ok() && !header->error.empty()) {
      return error(code_of(response.status), "{}", header->error);
    }
  }
  return error(code_of(response.status), "HTTP status {}", response.status);
}

absl::Status cut_outputs(Header header, const HttpResponse& response, size_t json_bytes,
                         std::vector<Tensor>& outputs) {
  size_t at = json_bytes;
  for (Header::Output& output : header.outputs) {
    if (output.binary_bytes) {
      if (*output.binary_bytes > response.body.size() - at) {
        return internal("output {} is said to have {} bytes, {} are left", output.tensor.name,
                        *output.binary_bytes, response.body.size() - at);
      }
      output.json_data = response.body.substr(at, *output.binary_bytes);
      at += *output.binary_bytes;
    }
    output.tensor.data = own(std::move(output.json_data));
    outputs.push_back(std::move(output.tensor));
  }
  return absl::OkStatus();
}

std::vector<InputInfo> read_metadata(Reader root) {
  std::vector<InputInfo> infos;
  for (const auto& [field, value] : root.map()) {
    if (field != "inputs") continue;
    for (const Reader& input : value.list()) {
      InputInfo info;
      for (const auto& [key, v] : input.map()) {
        if (key == "name") info.name = v.string();
        if (key == "datatype") info.datatype = read_datatype(v);
        if (key == "shape") {
          for (const Reader& d : v.list()) info.shape.push_back(d.integer(-1, kMaxElements));
        }
      }
      infos.push_back(std::move(info));
    }
  }
  return infos;
}

}  // namespace

std::string encode_infer(std::string_view host, const Question& question) {
  const std::string header = infer_header(question).dump();
  size_t size = header.size();
  for (const Tensor& t : question.inputs) size += t.data.bytes.size();
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

Answer decode_infer(HttpResponse response, bool want_outputs, bool explain) {
  if (response.status != 200) return {.status = error_of(response)};
  if (!want_outputs && !explain) return {};
  const size_t json_bytes = response.json_bytes.value_or(response.body.size());
  if (json_bytes > response.body.size()) {
    return {.status = internal("the reply's JSON is said to have {} bytes, its body has {}",
                               json_bytes, response.body.size())};
  }
  auto document = Document::parse(std::string_view(response.body).substr(0, json_bytes),
                                  Document::Format::kJson);
  if (!document.ok()) return {.status = internal("reply: {}", message(document.status()))};
  auto header = document->read(read_header);
  if (!header.ok()) return {.status = internal("reply: {}", message(header.status()))};
  Answer answer;
  if (explain) answer.why = header->why;
  if (want_outputs) {
    answer.status = cut_outputs(*std::move(header), response, json_bytes, answer.outputs);
  }
  return answer;
}

absl::StatusOr<std::vector<InputInfo>> decode_metadata(const HttpResponse& response) {
  if (response.status != 200) return error_of(response);
  ASSIGN_OR_RETURN(Document document, Document::parse(response.body, Document::Format::kJson));
  return document.read(read_metadata);
}

}  // namespace fermata::load
