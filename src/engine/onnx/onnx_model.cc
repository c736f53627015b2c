#include "engine/onnx/onnx_model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <string_view>
#include <utility>

#include "absl/algorithm/container.h"
#include "base/status.h"
#include "engine/onnx/divide_trap.h"
#include "engine/onnx/onnx_file.h"
#include "engine/onnx/onnx_value.h"
#include "model/tensor_values.h"

namespace fermata::engine {
namespace {

// The names that settings use.
constexpr std::array<std::string_view, 3> kProviders = {"cpu", "cuda", "tensorrt"};

absl::Status append_provider(OrtSessionOptions* options, std::string_view provider) {
  if (provider == "cpu") return absl::OkStatus();
  if (provider == "cuda") {
    OrtCUDAProviderOptionsV2* cuda = nullptr;
    RETURN_IF_ERROR(take_status(ort().CreateCUDAProviderOptions(&cuda)));
    absl::Status added =
        take_status(ort().SessionOptionsAppendExecutionProvider_CUDA_V2(options, cuda));
    ort().ReleaseCUDAProviderOptions(cuda);
    return added;
  }
  if (provider == "tensorrt") {
    OrtTensorRTProviderOptionsV2* tensorrt = nullptr;
    RETURN_IF_ERROR(take_status(ort().CreateTensorRTProviderOptions(&tensorrt)));
    absl::Status added =
        take_status(ort().SessionOptionsAppendExecutionProvider_TensorRT_V2(options, tensorrt));
    ort().ReleaseTensorRTProviderOptions(tensorrt);
    return added;
  }
  return invalid("there is no such provider");
}

absl::StatusOr<OrtPtr<OrtSessionOptions>> session_options(const OnnxOptions& wanted) {
  OrtSessionOptions* raw = nullptr;
  RETURN_IF_ERROR(take_status(ort().CreateSessionOptions(&raw)));
  OrtPtr<OrtSessionOptions> options(raw);
  RETURN_IF_ERROR(take_status(ort().SetIntraOpNumThreads(raw, static_cast<int>(wanted.threads))));
  RETURN_IF_ERROR(take_status(ort().SetInterOpNumThreads(raw, 1)));
  RETURN_IF_ERROR(take_status(ort().SetSessionExecutionMode(raw, ORT_SEQUENTIAL)));
  RETURN_IF_ERROR(take_status(ort().SetSessionGraphOptimizationLevel(raw, ORT_ENABLE_ALL)));
  RETURN_IF_ERROR(append_provider(raw, wanted.provider));
  return options;
}

absl::StatusOr<FileTensor> read_tensor(std::string name, std::string_view kind, OrtTypeInfo* raw) {
  OrtPtr<OrtTypeInfo> type(raw);
  const OrtTensorTypeAndShapeInfo* info = nullptr;  // belongs to `type`
  RETURN_IF_ERROR(take_status(ort().CastTypeInfoToTensorInfo(raw, &info)));
  if (info == nullptr) {
    return invalid("{} '{}' is not a tensor (a scikit-learn model is converted with zipmap off)",
                   kind, name);
  }
  ONNXTensorElementDataType element = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  RETURN_IF_ERROR(take_status(ort().GetTensorElementType(info, &element)));
  const std::optional<DataType> datatype = from_onnx(element);
  if (!datatype) {
    return invalid("{} '{}' has ONNX element type {}, which the protocol does not know", kind, name,
                   static_cast<int>(element));
  }
  size_t rank = 0;
  RETURN_IF_ERROR(take_status(ort().GetDimensionsCount(info, &rank)));
  FileTensor tensor{std::move(name), *datatype, Shape(rank), std::vector<std::string>(rank)};
  std::vector<const char*> symbols(rank);
  RETURN_IF_ERROR(take_status(ort().GetDimensions(info, tensor.shape.data(), rank)));
  RETURN_IF_ERROR(take_status(ort().GetSymbolicDimensions(info, symbols.data(), rank)));
  for (size_t i = 0; i < rank; ++i) tensor.symbols[i] = symbols[i];
  return tensor;
}

using CountOf = OrtStatus* (*)(const OrtSession*, size_t*);
using NameOf = OrtStatus* (*)(const OrtSession*, size_t, OrtAllocator*, char**);
using TypeOf = OrtStatus* (*)(const OrtSession*, size_t, OrtTypeInfo**);

absl::StatusOr<std::vector<FileTensor>> read_tensors(const OrtSession* session,
                                                     std::string_view kind, CountOf count_of,
                                                     NameOf name_of, TypeOf type_of) {
  ASSIGN_OR_RETURN(const OrtRuntime* runtime, ort_runtime());
  size_t count = 0;
  RETURN_IF_ERROR(take_status(count_of(session, &count)));
  std::vector<FileTensor> tensors;
  for (size_t i = 0; i < count; ++i) {
    char* raw_name = nullptr;
    RETURN_IF_ERROR(take_status(name_of(session, i, runtime->allocator, &raw_name)));
    std::string name = raw_name;
    RETURN_IF_ERROR(take_status(ort().AllocatorFree(runtime->allocator, raw_name)));
    OrtTypeInfo* type = nullptr;
    RETURN_IF_ERROR(take_status(type_of(session, i, &type)));
    ASSIGN_OR_RETURN(FileTensor tensor, read_tensor(std::move(name), kind, type));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

void find_any_ranks(const std::string& file, FileSignature& signature) {
  const auto scalar = [](const FileTensor& tensor) { return tensor.shape.empty(); };
  if (absl::c_none_of(signature.inputs, scalar) && absl::c_none_of(signature.outputs, scalar)) {
    return;
  }
  const std::set<std::string> without = tensors_without_shape(file);
  for (auto* tensors : {&signature.inputs, &signature.outputs}) {
    for (FileTensor& tensor : *tensors) {
      tensor.any_rank = tensor.shape.empty() && without.contains(tensor.name);
    }
  }
}

struct Models {
  std::mutex mutex;
  std::vector<std::weak_ptr<OnnxModel>> all;
};

Models& loaded() {
  static auto* const models = new Models;
  return *models;
}

void note(const std::shared_ptr<OnnxModel>& model) {
  const std::scoped_lock lock(loaded().mutex);
  std::erase_if(loaded().all, [](const auto& known) { return known.expired(); });
  loaded().all.push_back(model);
}

// What a run may be given, as little as there is: zeros, which are empty texts too.
OnnxInput least(const FileTensor& input, std::vector<std::byte>& zeros) {
  Shape shape = input.shape;
  for (int64_t& dim : shape) dim = std::max<int64_t>(dim, 0);
  const size_t element =
      input.datatype == DataType::kBytes ? sizeof(uint32_t) : element_size(input.datatype);
  zeros.resize(element_count(shape) * element);
  return {&input.name, input.datatype, std::move(shape), zeros};
}

// Whose end is said before it begins: only what follows each run is done.
absl::StatusOr<OrtPtr<OrtRunOptions>> ended_run() {
  OrtRunOptions* raw = nullptr;
  RETURN_IF_ERROR(take_status(ort().CreateRunOptions(&raw)));
  OrtPtr<OrtRunOptions> options(raw);
  RETURN_IF_ERROR(take_status(ort().RunOptionsSetTerminate(raw)));
  RETURN_IF_ERROR(
      take_status(ort().AddRunConfigEntry(raw, "memory.enable_memory_arena_shrinkage", "cpu:0")));
  return options;
}

size_t bytes_of(const std::vector<OnnxInput>& inputs, const std::vector<Tensor>& outputs) {
  size_t bytes = payload_bytes(outputs);
  for (const OnnxInput& input : inputs) bytes += input.data.size();
  return bytes;
}

}  // namespace

absl::Status check_provider(const OnnxOptions& options) {
  RETURN_IF_ERROR(ort_runtime().status());
  const absl::Status wanted = session_options(options).status();
  if (wanted.ok()) return wanted;
  std::vector<std::string_view> usable;
  for (std::string_view provider : kProviders) {
    if (session_options({std::string(provider), 1}).ok()) usable.push_back(provider);
  }
  return invalid("provider is '{}', but this ONNX Runtime can only use: {} ({})", options.provider,
                 fmt::join(usable, ", "), message(wanted));
}

absl::StatusOr<std::shared_ptr<OnnxModel>> OnnxModel::load(const std::string& file,
                                                           const OnnxOptions& options) {
  ASSIGN_OR_RETURN(const OrtRuntime* runtime, ort_runtime());
  ASSIGN_OR_RETURN(const OrtPtr<OrtSessionOptions> settings, session_options(options));
  OrtSession* session = nullptr;
  if (absl::Status created =
          take_status(ort().CreateSession(runtime->env, file.c_str(), settings.get(), &session));
      !created.ok()) {
    return invalid("{}: {}", file, message(created));
  }
  auto model = std::make_shared<OnnxModel>();
  model->session_.reset(session);
  model->whole_process_ = options.threads > 1;
  auto inputs = read_tensors(session, "input", ort().SessionGetInputCount,
                             ort().SessionGetInputName, ort().SessionGetInputTypeInfo);
  if (!inputs.ok()) return invalid("{}: {}", file, message(inputs.status()));
  auto outputs = read_tensors(session, "output", ort().SessionGetOutputCount,
                              ort().SessionGetOutputName, ort().SessionGetOutputTypeInfo);
  if (!outputs.ok()) return invalid("{}: {}", file, message(outputs.status()));
  auto defaults = read_tensors(session, "initializer", ort().SessionGetOverridableInitializerCount,
                               ort().SessionGetOverridableInitializerName,
                               ort().SessionGetOverridableInitializerTypeInfo);
  model->signature_ = {*std::move(inputs), *std::move(outputs)};
  if (defaults.ok()) model->signature_.defaults = *std::move(defaults);
  find_any_ranks(file, model->signature_);
  note(model);
  return model;
}

absl::StatusOr<std::vector<Tensor>> OnnxModel::run(const std::vector<OnnxInput>& inputs,
                                                   const std::vector<std::string>& outputs,
                                                   const OrtRunOptions* options) const {
  std::vector<OrtPtr<OrtValue>> owned;
  std::vector<const OrtValue*> values;
  std::vector<const char*> input_names, output_names;
  for (const OnnxInput& input : inputs) {
    ASSIGN_OR_RETURN(OrtPtr<OrtValue> value, make_value(input));
    values.push_back(value.get());
    owned.push_back(std::move(value));
    input_names.push_back(input.name->c_str());
  }
  for (const std::string& name : outputs) output_names.push_back(name.c_str());
  std::vector<OrtValue*> results(outputs.size(), nullptr);
  const DivideTraps traps(whole_process_);
  OrtStatus* status =
      ort().Run(session_.get(), options, input_names.data(), values.data(), values.size(),
                output_names.data(), output_names.size(), results.data());
  std::vector<OrtPtr<OrtValue>> given(results.begin(), results.end());
  RETURN_IF_ERROR(take_run_status(status));
  owned.clear();  // strings take much: not beside the outputs as they are read
  if (traps.any()) return invalid("the model divides an integer by zero, or the least by -1");
  std::vector<Tensor> tensors;
  tensors.reserve(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    ASSIGN_OR_RETURN(Tensor tensor, read_value(outputs[i], std::move(given[i]), inputs));
    tensors.push_back(std::move(tensor));
  }
  if (bytes_of(inputs, tensors) >= kLarge) count_large(tensors);
  return tensors;
}

void OnnxModel::count_large(std::vector<Tensor>& outputs) const {
  large_->fetch_add(1);
  for (Tensor& output : outputs) {
    auto gone = [owner = std::move(output.data.owner), large = large_](const void*) mutable {
      owner.reset();
      large->fetch_add(1);
    };
    output.data.owner = std::shared_ptr<const void>(output.data.bytes.data(), std::move(gone));
  }
}

void OnnxModel::give_back_memory() {
  const uint32_t now = large_->load();
  if (std::exchange(seen_, now) != now || std::exchange(given_back_, now) == now) return;
  std::vector<std::vector<std::byte>> zeros(signature_.inputs.size());
  std::vector<OnnxInput> inputs;
  for (size_t i = 0; i < zeros.size(); ++i) inputs.push_back(least(signature_.inputs[i], zeros[i]));
  std::vector<std::string> outputs;
  for (const FileTensor& output : signature_.outputs) outputs.push_back(output.name);
  const auto options = ended_run();
  if (options.ok()) (void)run(inputs, outputs, options->get());
}

void give_back_model_memory() {
  std::vector<std::weak_ptr<OnnxModel>> models;
  {
    const std::scoped_lock lock(loaded().mutex);
    models = loaded().all;
  }
  for (const auto& known : models) {
    if (const auto model = known.lock()) model->give_back_memory();
  }
}

}  // namespace fermata::engine
