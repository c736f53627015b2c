#pragma once

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "engine/onnx/onnx_c_api.h"
#include "model/datatype.h"

namespace fermata::engine {

// ONNX Runtime's C interface: the function table, its environment (one a process),
// and owners for its objects. INTERNAL where the library is older than what we call.
struct OrtRuntime {
  const OrtApi* api = nullptr;
  OrtEnv* env = nullptr;
  OrtMemoryInfo* cpu = nullptr;
  OrtAllocator* allocator = nullptr;
};
absl::StatusOr<const OrtRuntime*> ort_runtime();
// After ort_runtime() succeeded once.
const OrtApi& ort();

// Takes ownership; ORT's INVALID_ARGUMENT stays one, the rest is INTERNAL.
absl::Status take_status(OrtStatus* status);
// The same of a run: INVALID_ARGUMENT, with the node and why, where an operator fails on what it
// was given; INTERNAL where memory is missing or the run was stopped.
absl::Status take_run_status(OrtStatus* status);

struct OrtRelease {
  void operator()(OrtSession* p) const { ort().ReleaseSession(p); }
  void operator()(OrtSessionOptions* p) const { ort().ReleaseSessionOptions(p); }
  void operator()(OrtRunOptions* p) const { ort().ReleaseRunOptions(p); }
  void operator()(OrtValue* p) const { ort().ReleaseValue(p); }
  void operator()(OrtTypeInfo* p) const { ort().ReleaseTypeInfo(p); }
  void operator()(OrtTensorTypeAndShapeInfo* p) const { ort().ReleaseTensorTypeAndShapeInfo(p); }
};
template <class T>
using OrtPtr = std::unique_ptr<T, OrtRelease>;

ONNXTensorElementDataType to_onnx(DataType type);
// None of types that the protocol does not have.
std::optional<DataType> from_onnx(ONNXTensorElementDataType type);

}  // namespace fermata::engine
