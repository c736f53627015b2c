#include "serve/grpc/grpc_codec.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <variant>

#include "base/document.h"
#include "base/status.h"
#include "serve/call/reply_outputs.h"
#include "serve/call/shapes.h"
#include "serve/call/stream_parameters.h"
#include "serve/grpc/grpc_contents.h"

namespace fermata::serve {
namespace {

using inference::InferParameter;
using inference::ModelInferRequest;
using inference::ModelInferResponse;
using ParameterMap = google::protobuf::Map<std::string, InferParameter>;

std::optional<ParameterValue> value_of(const InferParameter& parameter) {
  switch (parameter.parameter_choice_case()) {
    case InferParameter::kBoolParam:
      return parameter.bool_param();
    case InferParameter::kInt64Param:
      return int64_t{parameter.int64_param()};
    case InferParameter::kUint64Param:
      return uint64_t{parameter.uint64_param()};
    case InferParameter::kDoubleParam:
      return parameter.double_param();
    case InferParameter::kStringParam:
      return std::string_view(parameter.string_param());
    case InferParameter::PARAMETER_CHOICE_NOT_SET:
      break;
  }
  return std::nullopt;
}

void set_value(const ParameterValue& from, InferParameter& to) {
  if (const auto* b = std::get_if<bool>(&from)) to.set_bool_param(*b);
  if (const auto* i = std::get_if<int64_t>(&from)) to.set_int64_param(*i);
  if (const auto* u = std::get_if<uint64_t>(&from)) to.set_uint64_param(*u);
  if (const auto* d = std::get_if<double>(&from)) to.set_double_param(*d);
  if (const auto* s = std::get_if<std::string_view>(&from)) to.set_string_param(std::string(*s));
}

absl::StatusOr<TensorParameters> read_parameters(std::string_view tensor,
                                                 const ParameterMap& from) {
  TensorParameters result;
  for (const auto& [key, parameter] : from) {
    if (const auto value = value_of(parameter)) {
      RETURN_IF_ERROR(set_tensor_parameter(tensor, key, *value, result));
    }
  }
  RETURN_IF_ERROR(check_tensor_parameters(tensor, result));
  return result;
}

// Takes the entries of raw_input_contents in turn.
class InputReader {
 public:
  InputReader(std::shared_ptr<const ModelInferRequest> message, const SharedMemory& regions,
              InferCall& call)
      : message_(std::move(message)), regions_(regions), call_(call) {}

  absl::StatusOr<Tensor> read(const ModelInferRequest::InferInputTensor& from) {
    Tensor tensor;
    tensor.name = from.name();
    if (tensor.name.empty()) return invalid("an input has no name");
    const auto type = parse_datatype(from.datatype());
    if (!type) {
      return invalid("input {}: \"{}\" is not a datatype, expected such as FP32", tensor.name,
                     from.datatype());
    }
    tensor.datatype = *type;
    tensor.shape.assign(from.shape().begin(), from.shape().end());
    RETURN_IF_ERROR(check_shape(tensor));
    ASSIGN_OR_RETURN(tensor.data, find_data(from, tensor));
    return tensor;
  }

  absl::Status check_all_taken() const {
    if (next_raw_ == message_->raw_input_contents_size()) return absl::OkStatus();
    return invalid("raw_input_contents has {} entries, the inputs take {}",
                   message_->raw_input_contents_size(), next_raw_);
  }

 private:
  absl::StatusOr<Payload> find_data(const ModelInferRequest::InferInputTensor& from,
                                    const Tensor& tensor) {
    if (!from.parameters().empty()) {
      ASSIGN_OR_RETURN(const auto parameters, read_parameters(tensor.name, from.parameters()));
      if (parameters.shared_memory) {
        if (from.has_contents()) {
          return invalid("input {} has contents and a place in shared memory", tensor.name);
        }
        return regions_.input_of(tensor, *parameters.shared_memory, call_);
      }
    }
    if (message_->raw_input_contents().empty()) {
      return read_contents(from.contents(), tensor, message_);
    }
    if (from.has_contents()) {
      return invalid("input {} has contents beside raw_input_contents", tensor.name);
    }
    if (next_raw_ == message_->raw_input_contents_size()) {
      return invalid("input {} has no entry in raw_input_contents", tensor.name);
    }
    const std::string& raw = message_->raw_input_contents(next_raw_++);
    const auto* start = reinterpret_cast<const std::byte*>(raw.data());
    return Payload{absl::MakeSpan(start, raw.size()), message_};
  }

  std::shared_ptr<const ModelInferRequest> message_;
  const SharedMemory& regions_;
  InferCall& call_;
  int next_raw_ = 0;
};

}  // namespace

absl::StatusOr<InferCall> decode_grpc_infer(std::shared_ptr<const ModelInferRequest> message,
                                            const SharedMemory& regions) {
  const ModelInferRequest& from = *message;
  InferCall call;
  call.request.service = from.model_name();
  call.request.version = from.model_version();
  RETURN_IF_ERROR(set_id(from.id(), call));
  for (const auto& [key, parameter] : from.parameters()) {
    if (const auto value = value_of(parameter)) {
      RETURN_IF_ERROR(set_request_parameter(key, *value, call));
    }
  }
  InputReader reader(std::move(message), regions, call);
  call.request.inputs.reserve(static_cast<size_t>(from.inputs_size()));
  for (const auto& input : from.inputs()) {
    ASSIGN_OR_RETURN(Tensor tensor, reader.read(input));
    call.request.inputs.push_back(std::move(tensor));
  }
  RETURN_IF_ERROR(reader.check_all_taken());
  for (const auto& output : from.outputs()) {
    ASSIGN_OR_RETURN(TensorParameters parameters,
                     read_parameters(output.name(), output.parameters()));
    RETURN_IF_ERROR(add_output(output.name(), std::move(parameters), regions, call));
  }
  RETURN_IF_ERROR(check_outputs(call));
  return call;
}

void encode_grpc_why(const engine::ReplyPart& part, const ReplyWishes* explained,
                     ModelInferResponse& response) {
  const auto add = [&](const auto& parameters) {
    for (const auto& [key, value] : parameters) {
      set_value(value, (*response.mutable_parameters())[std::string(key)]);
    }
  };
  if (part.stream != nullptr) add(stream_parameters(*part.stream));
  if (explained != nullptr) add(explain(part.why, *explained));
}

std::string encode_why_metadata(const engine::ReplyPart& part, const ReplyWishes& wishes) {
  Json why = Json::object();
  for (const auto& [key, value] : explain(part.why, wishes)) {
    Json& to = why[std::string(key)];
    std::visit([&to](const auto& plain) { to = plain; }, value);
  }
  return why.dump(-1, ' ', true, Json::error_handler_t::replace);
}

absl::Status encode_grpc_reply(engine::ReplyPart&& part, const ReplyWishes& wishes,
                               const SharedMemory& regions, ModelInferResponse& response,
                               const HeldBytes& held) {
  ASSIGN_OR_RETURN(const std::vector<ReadyOutput> outputs,
                   ready_outputs(std::move(part.outputs), wishes, regions, held));
  response.set_model_name(std::move(part.model));
  response.set_model_version(std::move(part.version));
  response.set_id(std::move(part.id));
  encode_grpc_why(part, wishes.explain ? &wishes : nullptr, response);
  for (const ReadyOutput& output : outputs) {
    auto& to = *response.add_outputs();
    to.set_name(output.tensor.name);
    to.set_datatype(std::string(name(output.tensor.datatype)));
    to.mutable_shape()->Add(output.tensor.shape.begin(), output.tensor.shape.end());
    std::string& raw = *response.add_raw_output_contents();  // empty for shared memory
    const auto bytes = output.tensor.data.bytes;
    if (output.written == nullptr) {
      raw.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    } else {
      auto& parameters = *to.mutable_parameters();
      parameters["shared_memory_region"].set_string_param(output.written->region);
      parameters["shared_memory_offset"].set_int64_param(
          static_cast<int64_t>(output.written->offset));
      parameters["shared_memory_byte_size"].set_int64_param(static_cast<int64_t>(bytes.size()));
    }
  }
  return absl::OkStatus();
}

}  // namespace fermata::serve
