// A backend for Triton that runs what Fermata runs, so that bench/triton.py compares servers and
// nothing else: ONNX models on the same ONNX Runtime, with the same settings, and emulated models
// that wait by the clock. A model's folder 1/ holds model.onnx, or emulated.txt with two numbers,
// alpha and beta: a batch of n items takes alpha * n + beta milliseconds. Tensors are FP32 or INT64
// in the processor's memory; the first dimension is the batch.
#include "triton/backend.h"

#include <chrono>
#include <cstring>
#include <fstream>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "engine/onnx/onnx_c_api.h"

namespace {

struct Tensor {
  std::string name;
  TRITONSERVER_DataType type;
  std::vector<int64_t> shape;
  std::vector<char> data;
};

uint64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

void check(TRITONSERVER_Error* error) {
  if (error != nullptr) throw std::runtime_error("Triton refused a call of the backend");
}

const OrtApi& ort() {
  static const OrtApi& api = *OrtGetApiBase()->GetApi(ORT_API_VERSION);
  return api;
}
void check(OrtStatus* status) {
  if (status != nullptr) throw std::runtime_error(ort().GetErrorMessage(status));
}

ONNXTensorElementDataType to_onnx(TRITONSERVER_DataType type) {
  if (type == TRITONSERVER_TYPE_FP32) return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
  if (type == TRITONSERVER_TYPE_INT64) return ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64;
  throw std::runtime_error("this backend takes FP32 and INT64 only");
}

class Model {
 public:
  virtual ~Model() = default;
  virtual std::vector<Tensor> run(std::vector<Tensor>& inputs) = 0;
};

class Emulated : public Model {
 public:
  Emulated(double alpha_ms, double beta_ms) : alpha_ms_(alpha_ms), beta_ms_(beta_ms) {}
  std::vector<Tensor> run(std::vector<Tensor>& inputs) override {
    const auto start = std::chrono::steady_clock::now();
    const int64_t items = inputs.at(0).shape.at(0);
    Tensor y{
        "y", TRITONSERVER_TYPE_FP32, {items, 10}, std::vector<char>(items * 10 * sizeof(float))};
    const std::chrono::duration<double, std::milli> time(alpha_ms_ * static_cast<double>(items) +
                                                         beta_ms_);
    std::this_thread::sleep_until(
        start + std::chrono::duration_cast<std::chrono::steady_clock::duration>(time));
    return {y};
  }

 private:
  double alpha_ms_, beta_ms_;
};

void drop_log(void*, OrtLoggingLevel, const char*, const char*, const char*, const char*) {}

class Onnx : public Model {
 public:
  explicit Onnx(const std::string& file) {
    static OrtEnv* const env = [] {
      OrtEnv* made = nullptr;
      check(ort().CreateEnvWithCustomLogger(drop_log, nullptr, ORT_LOGGING_LEVEL_FATAL, "bench",
                                            &made));
      return made;
    }();
    OrtSessionOptions* options = nullptr;
    check(ort().CreateSessionOptions(&options));
    check(ort().SetIntraOpNumThreads(options, 1));
    check(ort().SetInterOpNumThreads(options, 1));
    check(ort().SetSessionExecutionMode(options, ORT_SEQUENTIAL));
    check(ort().SetSessionGraphOptimizationLevel(options, ORT_ENABLE_ALL));
    check(ort().CreateSession(env, file.c_str(), options, &session_));
    ort().ReleaseSessionOptions(options);
    check(ort().CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &cpu_));
    OrtAllocator* allocator = nullptr;
    check(ort().GetAllocatorWithDefaultOptions(&allocator));
    size_t outputs = 0;
    check(ort().SessionGetOutputCount(session_, &outputs));
    for (size_t i = 0; i < outputs; ++i) {
      char* name = nullptr;
      check(ort().SessionGetOutputName(session_, i, allocator, &name));
      output_names_.emplace_back(name);
      check(ort().AllocatorFree(allocator, name));
    }
  }
  ~Onnx() override { ort().ReleaseSession(session_); }

  std::vector<Tensor> run(std::vector<Tensor>& inputs) override {
    std::vector<const char*> names, wanted;
    std::vector<OrtValue*> values, results(output_names_.size(), nullptr);
    for (Tensor& input : inputs) {
      names.push_back(input.name.c_str());
      check(ort().CreateTensorWithDataAsOrtValue(cpu_, input.data.data(), input.data.size(),
                                                 input.shape.data(), input.shape.size(),
                                                 to_onnx(input.type), &values.emplace_back()));
    }
    for (const std::string& name : output_names_) wanted.push_back(name.c_str());
    OrtStatus* status = ort().Run(session_, nullptr, names.data(), values.data(), values.size(),
                                  wanted.data(), wanted.size(), results.data());
    for (OrtValue* value : values) ort().ReleaseValue(value);
    check(status);
    std::vector<Tensor> outputs;
    for (size_t i = 0; i < results.size(); ++i) {
      outputs.push_back(read(output_names_[i], results[i]));
      ort().ReleaseValue(results[i]);
    }
    return outputs;
  }

 private:
  static Tensor read(const std::string& name, OrtValue* value) {
    OrtTensorTypeAndShapeInfo* info = nullptr;
    ONNXTensorElementDataType element = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    size_t rank = 0, count = 0;
    void* data = nullptr;
    check(ort().GetTensorTypeAndShape(value, &info));
    check(ort().GetTensorElementType(info, &element));
    check(ort().GetDimensionsCount(info, &rank));
    Tensor tensor{name, TRITONSERVER_TYPE_FP32, std::vector<int64_t>(rank), {}};
    if (element == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64) tensor.type = TRITONSERVER_TYPE_INT64;
    to_onnx(tensor.type);
    check(ort().GetDimensions(info, tensor.shape.data(), rank));
    check(ort().GetTensorShapeElementCount(info, &count));
    ort().ReleaseTensorTypeAndShapeInfo(info);
    check(ort().GetTensorMutableData(value, &data));
    const auto* bytes = static_cast<const char*>(data);
    tensor.data.assign(bytes, bytes + count * (tensor.type == TRITONSERVER_TYPE_FP32 ? 4 : 8));
    return tensor;
  }

  OrtSession* session_ = nullptr;
  OrtMemoryInfo* cpu_ = nullptr;
  std::vector<std::string> output_names_;
};

// Puts the requests' inputs into one batch; `items` gets the items of each request.
std::vector<Tensor> gather(TRITONBACKEND_Request** requests, uint32_t count,
                           std::vector<int64_t>* items) {
  std::vector<Tensor> batch;
  for (uint32_t r = 0; r < count; ++r) {
    uint32_t inputs = 0;
    check(TRITONBACKEND_RequestInputCount(requests[r], &inputs));
    batch.resize(inputs);
    for (uint32_t i = 0; i < inputs; ++i) {
      TRITONBACKEND_Input* input = nullptr;
      const char* name = nullptr;
      const int64_t* shape = nullptr;
      uint32_t rank = 0, buffers = 0;
      uint64_t bytes = 0;
      Tensor& tensor = batch[i];
      check(TRITONBACKEND_RequestInputByIndex(requests[r], i, &input));
      check(TRITONBACKEND_InputProperties(input, &name, &tensor.type, &shape, &rank, &bytes,
                                          &buffers));
      const int64_t before = r == 0 ? 0 : tensor.shape[0];
      tensor.name = name;
      tensor.shape.assign(shape, shape + rank);
      if (i == 0) items->push_back(tensor.shape[0]);
      tensor.shape[0] += before;
      for (uint32_t b = 0; b < buffers; ++b) {
        const void* data = nullptr;
        TRITONSERVER_MemoryType memory = TRITONSERVER_MEMORY_CPU;
        int64_t device = 0;
        check(TRITONBACKEND_InputBuffer(input, b, &data, &bytes, &memory, &device));
        const auto* from = static_cast<const char*>(data);
        tensor.data.insert(tensor.data.end(), from, from + bytes);
      }
    }
  }
  return batch;
}

void respond(TRITONBACKEND_Request* request, std::vector<Tensor>& outputs, int64_t first,
             int64_t items) {
  TRITONBACKEND_Response* response = nullptr;
  check(TRITONBACKEND_ResponseNew(&response, request));
  for (Tensor& output : outputs) {
    const size_t item = output.data.size() / output.shape[0];
    std::vector<int64_t> shape = output.shape;
    shape[0] = items;
    TRITONBACKEND_Output* given = nullptr;
    void* buffer = nullptr;
    TRITONSERVER_MemoryType memory = TRITONSERVER_MEMORY_CPU;
    int64_t device = 0;
    check(TRITONBACKEND_ResponseOutput(response, &given, output.name.c_str(), output.type,
                                       shape.data(), shape.size()));
    check(TRITONBACKEND_OutputBuffer(given, &buffer, item * items, &memory, &device));
    std::memcpy(buffer, output.data.data() + first * item, item * items);
  }
  check(TRITONBACKEND_ResponseSend(response, kFinalResponse, nullptr));
}

void fail(TRITONBACKEND_Request* request, const char* why) {
  TRITONBACKEND_Response* response = nullptr;
  if (TRITONBACKEND_ResponseNew(&response, request) != nullptr) return;
  TRITONBACKEND_ResponseSend(response, kFinalResponse,
                             TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, why));
}

}  // namespace

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance* instance) {
  try {
    TRITONBACKEND_Model* model = nullptr;
    TRITONBACKEND_ArtifactType type = TRITONBACKEND_ARTIFACT_FILESYSTEM;
    const char* folder = nullptr;
    check(TRITONBACKEND_ModelInstanceModel(instance, &model));
    check(TRITONBACKEND_ModelRepository(model, &type, &folder));
    double alpha_ms = 0, beta_ms = 0;
    std::unique_ptr<Model> made;
    if (std::ifstream emulated(std::string(folder) + "/1/emulated.txt");
        emulated >> alpha_ms >> beta_ms) {
      made = std::make_unique<Emulated>(alpha_ms, beta_ms);
    } else {
      made = std::make_unique<Onnx>(std::string(folder) + "/1/model.onnx");
    }
    check(TRITONBACKEND_ModelInstanceSetState(instance, made.release()));
    return nullptr;
  } catch (const std::exception& error) {
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, error.what());
  }
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance* instance) {
  void* state = nullptr;
  TRITONSERVER_Error* error = TRITONBACKEND_ModelInstanceState(instance, &state);
  delete static_cast<Model*>(state);
  return error;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance* instance,
                                                       TRITONBACKEND_Request** requests,
                                                       uint32_t count) {
  const uint64_t start = now_ns();
  uint64_t compute_start = start, compute_end = start;
  std::vector<int64_t> items;
  uint32_t answered = 0;
  try {
    void* state = nullptr;
    check(TRITONBACKEND_ModelInstanceState(instance, &state));
    std::vector<Tensor> inputs = gather(requests, count, &items);
    compute_start = now_ns();
    std::vector<Tensor> outputs = static_cast<Model*>(state)->run(inputs);
    compute_end = now_ns();
    int64_t first = 0;
    for (; answered < count; first += items[answered++]) {
      respond(requests[answered], outputs, first, items[answered]);
    }
  } catch (const std::exception& error) {
    for (uint32_t r = answered; r < count; ++r) fail(requests[r], error.what());
  }
  const uint64_t end = now_ns();
  for (uint32_t r = 0; r < count; ++r) {
    TRITONBACKEND_ModelInstanceReportStatistics(instance, requests[r], r < answered, start,
                                                compute_start, compute_end, end);
    TRITONBACKEND_RequestRelease(requests[r], kReleaseAll);
  }
  TRITONBACKEND_ModelInstanceReportBatchStatistics(
      instance, std::accumulate(items.begin(), items.end(), int64_t{0}), start, compute_start,
      compute_end, end);
  return nullptr;
}
