#include "engine/execute/executor.h"

#include <future>
#include <utility>

#include "base/status.h"
#include "engine/confine/machine.h"
#include "engine/execute/emulated_executor.h"
#include "engine/execute/thread_executor.h"

namespace fermata::engine {

BatchResult run_and_wait(Executor& executor, BatchRun batch) {
  std::promise<BatchResult> ended;
  batch.done = [&ended](BatchResult result) { ended.set_value(std::move(result)); };
  executor.run(std::move(batch));
  return ended.get_future().get();
}

BatchResult Executor::run_here(BatchRun batch) { return run_and_wait(*this, std::move(batch)); }

double Executor::memory_mb() const { return resident_mb(); }

absl::StatusOr<std::vector<FileSignature>> ExecutorFactory::open(const Variant& /*variant*/) {
  return unimplemented("emulated workers open no files");
}

absl::StatusOr<inference::ModelConfig> ExecutorFactory::complete(const Variant& /*variant*/) {
  return unimplemented(
      "such models run in processes of their own only: write `workers: {{isolation: process}}` in "
      "fermata.yaml");
}

absl::StatusOr<std::unique_ptr<ExecutorFactory>> make_executors(const WorkerOptions& options,
                                                                uint32_t type) {
  switch (options.executor) {
    case ExecutorKind::kEmulated:
      return make_emulated_executors(type);
    case ExecutorKind::kPaced: {
      ASSIGN_OR_RETURN(auto real, make_thread_executors(options.types[type]));
      return make_emulated_executors(type, std::move(real));
    }
    case ExecutorKind::kOnnxRuntime:
      break;
  }
  return make_thread_executors(options.types[type]);
}

}  // namespace fermata::engine
