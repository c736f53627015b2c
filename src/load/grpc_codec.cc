#include "load/grpc_codec.h"

#include <string>
#include <utility>

#include "base/status.h"
#include "load/explain.h"
#include "load/json_tensor.h"

namespace fermata::load {
namespace {

double number(const inference::InferParameter& parameter) {
  switch (parameter.parameter_choice_case()) {
    case inference::InferParameter::kInt64Param:
      return parameter.int64_param();
    case inference::InferParameter::kUint64Param:
      return parameter.uint64_param();
    case inference::InferParameter::kDoubleParam:
      return parameter.double_param();
    default:
      return 0;
  }
}

Why read_why(const inference::ModelInferResponse& response) {
  Why why;
  for (const auto& [name, parameter] : response.parameters()) {
    if (name == kBatchItems) why.batch_items = static_cast<uint32_t>(number(parameter));
    if (name == kQueueingUs) why.queueing = Duration::from_seconds(number(parameter) * 1e-6);
    if (name == kRunUs) why.run = Duration::from_seconds(number(parameter) * 1e-6);
  }
  return why;
}

absl::StatusOr<DataType> datatype_of(const std::string& tensor, const std::string& name) {
  const auto datatype = parse_datatype(name);
  if (!datatype) return internal("tensor {} has the unknown datatype {}", tensor, name);
  return *datatype;
}

absl::Status read_outputs(inference::ModelInferResponse& response, std::vector<Tensor>& outputs) {
  if (response.raw_output_contents_size() != response.outputs_size()) {
    return internal("the reply has {} outputs and {} raw contents", response.outputs_size(),
                    response.raw_output_contents_size());
  }
  for (int i = 0; i < response.outputs_size(); ++i) {
    const auto& output = response.outputs(i);
    ASSIGN_OR_RETURN(const DataType datatype, datatype_of(output.name(), output.datatype()));
    outputs.push_back({output.name(), datatype, Shape(output.shape().begin(), output.shape().end()),
                       own(std::move(*response.mutable_raw_output_contents(i)))});
  }
  return absl::OkStatus();
}

}  // namespace

inference::ModelInferRequest encode_infer(const Question& question) {
  inference::ModelInferRequest request;
  request.set_model_name(question.service);
  request.set_model_version(question.version);
  auto& parameters = *request.mutable_parameters();
  if (question.timeout) {
    parameters[std::string(kTimeout)].set_int64_param(question.timeout->nanos() / 1000);
  }
  if (question.explain) parameters[std::string(kExplain)].set_bool_param(true);
  for (const Tensor& t : question.inputs) {
    auto& input = *request.add_inputs();
    input.set_name(t.name);
    input.set_datatype(std::string(name(t.datatype)));
    input.mutable_shape()->Add(t.shape.begin(), t.shape.end());
    request.add_raw_input_contents(t.data.bytes.data(), t.data.bytes.size());
  }
  return request;
}

Answer decode_infer(inference::ModelInferResponse response, bool want_outputs, bool explain) {
  Answer answer;
  if (explain) answer.why = read_why(response);
  if (want_outputs) answer.status = read_outputs(response, answer.outputs);
  return answer;
}

absl::StatusOr<std::vector<InputInfo>> decode_metadata(
    const inference::ModelMetadataResponse& response) {
  std::vector<InputInfo> infos;
  for (const auto& input : response.inputs()) {
    ASSIGN_OR_RETURN(const DataType datatype, datatype_of(input.name(), input.datatype()));
    infos.push_back({input.name(), datatype, Shape(input.shape().begin(), input.shape().end())});
  }
  return infos;
}

}  // namespace fermata::load
