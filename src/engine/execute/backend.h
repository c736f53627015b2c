#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/catalog.h"
#include "engine/execute/executor.h"
#include "engine/onnx/onnx_model.h"

namespace fermata::engine {

// A batch put together, as its model wants it.
struct WholeBatch {
  VariantId variant;
  const std::vector<OnnxInput>* inputs = nullptr;
  const std::vector<std::string>* outputs = nullptr;  // names, none twice
  bool to_the_end = false;                            // as BatchRun has it
  bool first = true;  // of what runs for one BatchRun: terminate() holds until the next
};

// Runs batches of loaded variants on the thread that calls; one per worker.
class ModelRunner {
 public:
  virtual ~ModelRunner() = default;
  // Blocks. Any thread, beside run().
  virtual absl::Status load(std::shared_ptr<const Variant> variant) = 0;
  virtual void unload(VariantId id) = 0;
  // One tensor per output, in order. Adds to `ran` what ran of a dynamic network.
  virtual absl::StatusOr<std::vector<Tensor>> run(const WholeBatch& batch,
                                                  std::vector<StageRun>& ran) = 0;
  virtual void terminate() {}  // asks the run under way to stop. Any thread
  virtual void pin(const std::vector<uint32_t>& /*processors*/) {}  // as Executor's
  // One that takes the place of this for the same worker, and shares what it has opened.
  virtual std::unique_ptr<ModelRunner> successor() const = 0;
};

// Of a run's error: a model that has run fails for what it was given; of one that never has that
// cannot be told.
absl::Status blame(const absl::Status& failed, bool ran);

// What the runners of one type of worker share.
class ModelRunners {
 public:
  virtual ~ModelRunners() = default;
  // What its files take and give, by stage; runners that are made later share what was opened.
  virtual absl::StatusOr<std::vector<FileSignature>> open(const Variant& variant) = 0;
  virtual std::unique_ptr<ModelRunner> make() = 0;
};

// An engine for models.
struct Backend {
  std::string_view name;  // as `backend` of config.pbtxt has it: a ModelKind's
  // Whether such workers can be had here: INVALID_ARGUMENT says what is missing.
  absl::Status (*probe)(const WorkerType& type);
  std::unique_ptr<ModelRunners> (*make)(const WorkerType& type);
  // Of one whose models run in a process of another program (docs/processes.md): the command that
  // starts it, and what that reads from its standard input. A process of its own for each worker;
  // its code says what the configuration leaves open. Null: `make` is there, and
  // `fermata model-process` runs it. INVALID_ARGUMENT says what is missing.
  absl::StatusOr<std::vector<std::string>> (*command)(const Variant& variant,
                                                      const WorkerType& type,
                                                      const WorkerOptions& options) = nullptr;
  std::string (*program)() = nullptr;
  // Whether processes may be copies of one that has opened a model for a worker of one thread: it
  // starts no threads.
  bool copied = false;
};

// One for each of model_kinds(), in no order but that the first runs what names none.
absl::Span<const Backend> backends();
const Backend& backend_of(const inference::ModelConfig& config);

// Runners that take every model to the backend that reads it.
std::unique_ptr<ModelRunners> make_runners(const WorkerType& type);

}  // namespace fermata::engine
