#include "serve/json/json_reply.h"

#include <fmt/format.h>

#include <iterator>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "model/signature.h"
#include "serve/call/reply_outputs.h"
#include "serve/call/status_map.h"
#include "serve/call/stream_parameters.h"
#include "serve/json/json_text.h"

namespace fermata::serve {
namespace {

constexpr size_t kCopiedBelow = 4096;  // a copy of so few bytes is cheaper than a buffer of its own

void append_member(std::string_view name, const ParameterValue& value, std::string& out) {
  append_json(name, out);
  out.push_back(':');
  append_json(value, out);
}

void append_parameters(const engine::ReplyPart& part, const ReplyWishes& wishes, std::string& out) {
  out += ",\"parameters\":{";
  bool first = true;
  std::vector<std::pair<std::string_view, ParameterValue>> parameters;
  if (wishes.explain) parameters = explain(part.why, wishes);
  if (part.stream != nullptr) {
    for (const auto& p : stream_parameters(*part.stream)) parameters.push_back(p);
  }
  for (const auto& [name, value] : parameters) {
    if (!std::exchange(first, false)) out.push_back(',');
    append_member(name, value, out);
  }
  out.push_back('}');
}

void append_id(std::string_view id, std::string& out) {
  out += ",\"id\":";
  append_json(id, out);
}

// `binary` collects what follows the JSON. An output in shared memory has no more
// to say: Triton's C++ client takes parameters without binary_data_size for an error.
absl::Status append_output(const ReadyOutput& output, std::string& out,
                           std::vector<Payload>& binary) {
  const Tensor& tensor = output.tensor;
  out += "{\"name\":";
  append_json(std::string_view(tensor.name), out);
  fmt::format_to(std::back_inserter(out), ",\"datatype\":\"{}\",\"shape\":[{}]",
                 name(tensor.datatype), fmt::join(tensor.shape, ","));
  if (output.written != nullptr) {
    out.push_back('}');
    return absl::OkStatus();
  }
  if (output.binary) {
    fmt::format_to(std::back_inserter(out), ",\"parameters\":{{\"binary_data_size\":{}}}",
                   tensor.data.bytes.size());
    binary.push_back(tensor.data);
  } else {
    out += ",\"data\":";
    RETURN_IF_ERROR(append_json_data(tensor, out));
  }
  out.push_back('}');
  return absl::OkStatus();
}

void attach(std::vector<Payload> binary, HttpReply& reply) {
  if (binary.empty()) return;
  reply.json_length = reply.text.size();
  for (Payload& payload : binary) {
    if (reply.tail.empty() && payload.bytes.size() < kCopiedBelow) {
      reply.text.append(reinterpret_cast<const char*>(payload.bytes.data()), payload.bytes.size());
    } else {
      reply.tail.push_back(std::move(payload));
    }
  }
}

}  // namespace

size_t HttpReply::size() const {
  size_t total = text.size();
  for (const Payload& payload : tail) total += payload.bytes.size();
  return total;
}

std::string encode_json_error(const engine::ReplyPart& part, const ReplyWishes& wishes) {
  std::string out = error_body(client_message(part.status));
  out.pop_back();
  if (wishes.explain || part.stream != nullptr) append_parameters(part, wishes, out);
  return out + '}';
}

std::string encode_json_failure(std::string_view id, const engine::ReplyPart& part,
                                const ReplyWishes& wishes) {
  std::string out = encode_json_error(part, wishes);
  out.back() = ',';
  fmt::format_to(std::back_inserter(out), "\"status\":{}", http_status(part.status.code()));
  if (!id.empty()) append_id(id, out);
  return out + '}';
}

std::string encode_json_acknowledgement(std::string_view id, Duration in_server) {
  std::string out = fmt::format(R"({{"parameters":{{"stream_ack":true,"stream_server_us":{}}})",
                                in_server.nanos() / 1000);
  if (!id.empty()) append_id(id, out);
  return out + '}';
}

absl::StatusOr<HttpReply> encode_json_reply(engine::ReplyPart&& part, const ReplyWishes& wishes,
                                            const SharedMemory& regions, const HeldBytes& held) {
  ASSIGN_OR_RETURN(const std::vector<ReadyOutput> outputs,
                   ready_outputs(std::move(part.outputs), wishes, regions, held));
  HttpReply reply;
  std::string& out = reply.text;
  out.reserve(256);
  out += "{\"model_name\":";
  append_json(std::string_view(part.model), out);
  out += ",\"model_version\":";
  append_json(std::string_view(part.version), out);
  if (!part.id.empty()) append_id(part.id, out);
  if (wishes.explain || part.stream != nullptr) append_parameters(part, wishes, out);
  out += ",\"outputs\":[";
  std::vector<Payload> binary;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (i > 0) out.push_back(',');
    RETURN_IF_ERROR(append_output(outputs[i], out, binary));
  }
  out += "]}";
  attach(std::move(binary), reply);
  return reply;
}

}  // namespace fermata::serve
