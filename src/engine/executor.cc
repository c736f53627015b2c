#include "engine/executor.h"

#include "engine/emulated_executor.h"
#include "engine/onnx_executor.h"

namespace fermata::engine {

absl::StatusOr<std::unique_ptr<ExecutorFactory>> make_executors(const WorkerOptions& options) {
  switch (options.executor) {
    case ExecutorKind::kEmulated:
      return make_emulated_executors();
    case ExecutorKind::kOnnxRuntime:
      break;
  }
  return make_onnx_executors(options);
}

}  // namespace fermata::engine
