#include "engine/execute/executor.h"

#include "engine/execute/emulated_executor.h"
#include "engine/execute/onnx_executor.h"

namespace fermata::engine {

absl::StatusOr<std::unique_ptr<ExecutorFactory>> make_executors(const WorkerOptions& options,
                                                                uint32_t type) {
  switch (options.executor) {
    case ExecutorKind::kEmulated:
      return make_emulated_executors(type);
    case ExecutorKind::kOnnxRuntime:
      break;
  }
  return make_onnx_executors(options.types[type]);
}

}  // namespace fermata::engine
