#include "engine/execute/thread_executor.h"

#include <concurrentqueue.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <mutex>
#include <thread>

#include "absl/container/flat_hash_map.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/status.h"
#include "engine/catalog.h"
#include "engine/execute/backend.h"
#include "engine/execute/gather.h"
#include "engine/execute/run_watch.h"
#include "engine/threads/parker.h"

namespace fermata::engine {
namespace {

class ThreadExecutor : public Executor {
 public:
  explicit ThreadExecutor(std::unique_ptr<ModelRunner> runner)
      : runner_(std::move(runner)), thread_([this] { loop(); }) {}

  ~ThreadExecutor() override {
    stopped_ = true;
    parker_.unpark();
    thread_.join();
  }

  absl::Status load(std::shared_ptr<const Variant> variant) override {
    RETURN_IF_ERROR(runner_->load(variant));
    const std::lock_guard lock(mutex_);
    variants_[variant->id] = std::move(variant);
    return absl::OkStatus();
  }

  void unload(VariantId id) override {
    runner_->unload(id);
    const std::lock_guard lock(mutex_);
    variants_.erase(id);
  }

  void run(BatchRun batch) override {
    batches_.enqueue(in_order_, std::move(batch));
    parker_.unpark();
  }

  // A wish: where the system does not grant it the thread runs anywhere.
  void pin(const std::vector<uint32_t>& processors) override {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const uint32_t processor : processors) CPU_SET(processor, &set);
    (void)pthread_setaffinity_np(thread_.native_handle(), sizeof(set), &set);
    runner_->pin(processors);
  }

  void terminate() override { runner_->terminate(); }

 private:
  void loop() {
    while (true) {
      BatchRun batch;
      if (batches_.try_dequeue(batch)) {
        run_batch(batch);
      } else if (stopped_) {
        return;
      } else {
        parker_.park_until(Time::infinite());
      }
    }
  }

  void run_batch(BatchRun& batch) {
    std::shared_ptr<const Variant> variant;
    {
      const std::lock_guard lock(mutex_);
      const auto it = variants_.find(batch.variant);
      FERMATA_CHECK(it != variants_.end());
      variant = it->second;
    }
    BatchResult result;
    result.started = monotonic_now();
    first_ = true;
    run_parts(batch.parts, result, [&](absl::Span<const BatchPart> parts, BatchResult& into) {
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
    RETURN_IF_ERROR(outputs.status());
    RETURN_IF_ERROR(scatter_all(variant.signature, *outputs, parts, result.parts));
    result.output += monotonic_now() - ran;
    return absl::OkStatus();
  }

  const std::unique_ptr<ModelRunner> runner_;
  moodycamel::ConcurrentQueue<BatchRun> batches_;
  moodycamel::ProducerToken in_order_{batches_};  // whichever threads they come from
  std::atomic<bool> stopped_{false};
  std::mutex mutex_;
  absl::flat_hash_map<VariantId, std::shared_ptr<const Variant>> variants_;
  Parker parker_;
  // The thread's own:
  Gatherer gatherer_;
  bool first_ = true;
  std::thread thread_;
};

class ThreadExecutors : public ExecutorFactory {
 public:
  explicit ThreadExecutors(const WorkerType& type) : runners_(make_runners(type)) {}
  std::shared_ptr<Executor> make() override {
    return watch_.over([this] { return std::make_unique<ThreadExecutor>(runners_->make()); });
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
