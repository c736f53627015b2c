#include "engine/onnx/onnx_api.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/check.h"
#include "base/status.h"
#include "engine/onnx/divide_trap.h"

namespace fermata::engine {
namespace {

// In the order of DataType.
constexpr std::array<ONNXTensorElementDataType, 14> kTypes = {
    ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL,     ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8,
    ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16,   ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32,
    ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64,   ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8,
    ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16,    ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32,
    ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64,    ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16,
    ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT,
    ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE,   ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING};

// Messages come back as statuses; what the library would print besides is dropped.
void drop_log(void*, OrtLoggingLevel, const char*, const char*, const char*, const char*) {}

// Without the place in the library's own source: "/path/file.h:523 void Init(long) condition was
// false. Why".
std::string_view reason_of(std::string_view text) {
  constexpr std::string_view kStatus = "Status Message: ", kFalse = " was false. ";
  if (const size_t at = text.find(kStatus); at != std::string_view::npos) {
    text.remove_prefix(at + kStatus.size());
  }
  if (const size_t at = text.find(kFalse); at != std::string_view::npos) {
    text.remove_prefix(at + kFalse.size());
  }
  const std::string_view first = text.substr(0, text.find(' '));
  if (first.size() < text.size() && (first.find(".h:") != std::string_view::npos ||
                                     first.find(".cc:") != std::string_view::npos)) {
    text.remove_prefix(first.size() + 1);
  }
  return text.substr(0, text.find_last_not_of("\n ") + 1);
}

// "Non-zero status code returned while running Add node. Name:'sum' Status Message: ..."
std::string node_of(std::string_view text) {
  constexpr std::string_view kRunning = "while running ", kName = "Name:'";
  const size_t kind = text.find(kRunning), name = text.find(kName);
  if (kind == std::string_view::npos || name == std::string_view::npos) return "";
  text = text.substr(kind + kRunning.size());
  const std::string_view of = text.substr(text.find(kName) + kName.size());
  return fmt::format("node '{}' ({}): ", of.substr(0, of.find('\'')),
                     text.substr(0, text.find(' ')));
}

const OrtApi* g_api = nullptr;

absl::StatusOr<OrtRuntime> open_runtime() {
  const OrtApiBase* base = OrtGetApiBase();
  OrtRuntime runtime;
  runtime.api = base->GetApi(ORT_API_VERSION);
  if (runtime.api == nullptr) {
    return internal(
        "ONNX Runtime {} does not offer API version {}, which this program was built "
        "for: install a newer library",
        base->GetVersionString(), ORT_API_VERSION);
  }
  g_api = runtime.api;
  catch_integer_divisions_of(reinterpret_cast<const void*>(base->GetApi));
  RETURN_IF_ERROR(take_status(g_api->CreateEnvWithCustomLogger(
      drop_log, nullptr, ORT_LOGGING_LEVEL_FATAL, "fermata", &runtime.env)));
  RETURN_IF_ERROR(
      take_status(g_api->CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &runtime.cpu)));
  RETURN_IF_ERROR(take_status(g_api->GetAllocatorWithDefaultOptions(&runtime.allocator)));
  return runtime;
}

}  // namespace

absl::StatusOr<const OrtRuntime*> ort_runtime() {
  static const auto* runtime = new absl::StatusOr<OrtRuntime>(open_runtime());
  if (!runtime->ok()) return runtime->status();
  return &**runtime;
}

const OrtApi& ort() {
  FERMATA_CHECK(g_api != nullptr);
  return *g_api;
}

absl::Status take_status(OrtStatus* status) {
  if (status == nullptr) return absl::OkStatus();
  absl::StatusCode code = absl::StatusCode::kInternal;
  const std::string_view text = g_api->GetErrorMessage(status);
  if (g_api->GetErrorCode(status) == ORT_INVALID_ARGUMENT) {
    code = absl::StatusCode::kInvalidArgument;
  } else if (text.find("alloc") != text.npos) {
    // The library has no code for it: its allocators and std::bad_alloc say so in words.
    code = absl::StatusCode::kResourceExhausted;
  }
  absl::Status result = error(code, "{}", text);
  g_api->ReleaseStatus(status);
  return result;
}

absl::Status take_run_status(OrtStatus* status) {
  const absl::Status taken = take_status(status);
  const std::string_view text = message(taken);
  // Of the machine or of us; whatever else it says of a run is the input's.
  constexpr std::string_view kNotOfTheInput[] = {"terminate flag", "CUDA", "CUDNN", "CUBLAS",
                                                 "TensorRT"};
  const auto says = [text](std::string_view word) { return text.find(word) != text.npos; };
  if (taken.ok() || absl::IsResourceExhausted(taken) ||
      std::any_of(std::begin(kNotOfTheInput), std::end(kNotOfTheInput), says)) {
    return taken;
  }
  return invalid("{}{}", node_of(text), reason_of(text));
}

ONNXTensorElementDataType to_onnx(DataType type) { return kTypes[static_cast<size_t>(type)]; }

std::optional<DataType> from_onnx(ONNXTensorElementDataType type) {
  const auto it = std::find(kTypes.begin(), kTypes.end(), type);
  if (it == kTypes.end()) return std::nullopt;
  return static_cast<DataType>(it - kTypes.begin());
}

}  // namespace fermata::engine
