#include "engine/execute/thread_executor.h"

#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "engine/catalog.h"
#include "engine/execute/backend.h"
#include "engine/execute/batch_thread.h"
#include "engine/execute/by_variant.h"
#include "engine/execute/gather.h"
#include "engine/execute/run_watch.h"

namespace fermata::engine {
namespace {

class ThreadExecutor : public Executor {
 public:
  explicit ThreadExecutor(std::unique_ptr<ModelRunner> runner)
      : runner_(std::move(runner)), thread_([this](BatchRun& batch) { run_batch(batch); }) {}

  absl::Status load(std::shared_ptr<const Variant> variant) override {
    thread_.wait();  // an earlier unload of it
    RETURN_IF_ERROR(runner_->load(variant));
    variants_.put(variant->id, variant);
    return absl::OkStatus();
  }

  void unload(VariantId id) override {
    thread_.post([this, id] {
      runner_->unload(id);
      variants_.remove(id);
    });
  }

  void run(BatchRun batch) override { thread_.run(std::move(batch)); }

  void pin(const std::vector<uint32_t>& processors) override {
    thread_.pin(processors);
    runner_->pin(processors);
  }

  void terminate() override { runner_->terminate(); }

 private:
  void run_batch(BatchRun& batch) {
    const std::shared_ptr<const Variant> variant = variants_.find(batch.variant);
    BatchResult result;
    result.started = monotonic_now();
    first_ = true;
    run_parts(batch, result, [&](absl::Span<const BatchPart> parts, BatchResult& into) {
      // An executor in the place of one that was stuck may not have been able to load it
      // again.
      if (variant == nullptr)
        return error(absl::StatusCode::kUnavailable, "the model is not loaded on this worker");
      return try_parts(*variant, batch.to_the_end, parts, into);
    });
    batch.done(std::move(result));
  }

  // Adds one result for each part, or none where all of them fail together.
  absl::Status try_parts(const Variant& variant, bool to_the_end, absl::Span<const BatchPart> parts,
                         BatchResult& result) {
    const Time start = monotonic_now();
    ASSIGN_OR_RETURN(const std::vector<OnnxInput> inputs,
                     gatherer_.gather(variant.signature, parts));
    const Time gathered = monotonic_now();
    result.input += gathered - start;
    const std::vector<std::string> names = output_names(variant.signature, parts);
    auto outputs = runner_->run(
        {variant.id, &inputs, &names, to_the_end, std::exchange(first_, false)}, result.stages);
    const Time ran = monotonic_now();
    result.run += ran - gathered;
    gatherer_.ran();
    RETURN_IF_ERROR(outputs.status());
    RETURN_IF_ERROR(scatter_all(variant.signature, *outputs, parts, result.parts));
    result.output += monotonic_now() - ran;
    return absl::OkStatus();
  }

  const std::unique_ptr<ModelRunner> runner_;
  ByVariant<const Variant> variants_;
  // The thread's own:
  Gatherer gatherer_;
  bool first_ = true;
  BatchThread thread_;  // last: uses the above
};

class ThreadExecutors : public ExecutorFactory {
 public:
  explicit ThreadExecutors(const WorkerType& type) : runners_(make_runners(type)) {}
  std::shared_ptr<Executor> make() override {
    return watch_.over([first = std::shared_ptr<const ModelRunner>(runners_->make())] {
      return std::make_unique<ThreadExecutor>(first->successor());
    });
  }
  absl::StatusOr<std::vector<FileSignature>> open(const Variant& variant) override {
    return runners_->open(variant);
  }

 private:
  const std::unique_ptr<ModelRunners> runners_;
  RunWatch watch_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ExecutorFactory>> make_thread_executors(const WorkerType& type) {
  if (type.threads < 1) return invalid("workers.threads is 0, expected at least 1");
  if (absl::Status good = backends().front().probe(type); !good.ok()) {
    return invalid("workers.{}", message(good));
  }
  return std::make_unique<ThreadExecutors>(type);
}

}  // namespace fermata::engine
