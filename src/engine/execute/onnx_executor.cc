#include "engine/execute/onnx_executor.h"

#include <concurrentqueue.h>

#include <algorithm>
#include <future>
#include <mutex>
#include <thread>

#include "absl/container/flat_hash_map.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/status.h"
#include "engine/catalog.h"
#include "engine/execute/gather.h"
#include "engine/execute/run_watch.h"
#include "engine/schedule/parker.h"

namespace fermata::engine {
namespace {

using ModelPtr = std::shared_ptr<const OnnxModel>;

// Sessions by variant, for as long as a worker has them.
class Sessions {
 public:
  explicit Sessions(OnnxOptions options) : options_(std::move(options)) {}

  absl::StatusOr<ModelPtr> open(const Variant& variant) {
    if (options_.threads > 1) return OnnxModel::load(variant.file, options_);
    const std::lock_guard lock(mutex_);
    std::weak_ptr<const OnnxModel>& shared = by_variant_[variant.id];
    if (ModelPtr model = shared.lock()) return model;
    ASSIGN_OR_RETURN(ModelPtr model, OnnxModel::load(variant.file, options_));
    shared = model;
    return model;
  }

 private:
  const OnnxOptions options_;
  std::mutex mutex_;
  absl::flat_hash_map<VariantId, std::weak_ptr<const OnnxModel>> by_variant_;
};

struct Loaded {
  std::shared_ptr<const Variant> variant;
  ModelPtr model;
  std::vector<std::string> outputs;  // all of them
};

std::vector<std::string> output_names(const Loaded& loaded, absl::Span<const BatchPart> parts) {
  std::vector<std::string> names;
  for (const BatchPart& part : parts) {
    if (part.outputs->empty()) return loaded.outputs;
    for (const std::string& name : *part.outputs) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

OrtPtr<OrtRunOptions> new_run_options() {
  OrtRunOptions* raw = nullptr;
  FERMATA_CHECK(take_status(ort().CreateRunOptions(&raw)).ok());
  return OrtPtr<OrtRunOptions>(raw);
}

class OnnxExecutor : public Executor {
 public:
  explicit OnnxExecutor(std::shared_ptr<Sessions> sessions)
      : sessions_(std::move(sessions)),
        run_options_(new_run_options()),
        thread_([this] { loop(); }) {}

  ~OnnxExecutor() override {
    post([this] { stopped_ = true; });
    thread_.join();
  }

  absl::Status load(std::shared_ptr<const Variant> variant) override {
    ASSIGN_OR_RETURN(ModelPtr model, sessions_->open(*variant));
    Loaded loaded{std::move(variant), std::move(model), {}};
    for (const TensorSpec& spec : loaded.variant->signature.outputs) {
      loaded.outputs.push_back(spec.name);
    }
    std::promise<void> done;
    post([this, &loaded, &done] {
      const VariantId id = loaded.variant->id;
      variants_[id] = std::move(loaded);
      done.set_value();
    });
    done.get_future().wait();
    return absl::OkStatus();
  }

  void unload(VariantId id) override {
    post([this, id] { variants_.erase(id); });
  }

  void run(BatchRun batch) override {
    batches_.enqueue(std::move(batch));
    parker_.unpark();
  }

  // Between two nodes of the graph, and of those inside it, the library looks at this.
  void terminate() override { (void)take_status(ort().RunOptionsSetTerminate(run_options_.get())); }

 private:
  void post(absl::AnyInvocable<void()> command) {
    commands_.enqueue(std::move(command));
    parker_.unpark();
  }

  void loop() {
    while (!stopped_) {
      BatchRun batch;
      absl::AnyInvocable<void()> command;
      if (batches_.try_dequeue(batch)) {
        run_batch(batch);
      } else if (commands_.try_dequeue(command)) {
        command();
      } else {
        parker_.park_until(Time::infinite());
      }
    }
  }

  void run_batch(BatchRun& batch) {
    const auto it = variants_.find(batch.variant);
    FERMATA_CHECK(it != variants_.end());
    (void)take_status(ort().RunOptionsUnsetTerminate(run_options_.get()));
    BatchResult result;
    result.started = monotonic_now();
    const absl::Status whole = try_parts(it->second, batch.parts, result);
    if (!whole.ok() && batch.parts.size() > 1) {
      result.parts.clear();
      for (const BatchPart& part : batch.parts) {
        if (absl::Status alone = try_parts(it->second, {&part, 1}, result); !alone.ok()) {
          result.parts.push_back(std::move(alone));
        }
      }
    } else if (!whole.ok()) {
      result.parts.push_back(whole);
    }
    batch.done(std::move(result));
  }

  // Adds one result for each part, or none where all of them fail together.
  absl::Status try_parts(const Loaded& loaded, absl::Span<const BatchPart> parts,
                         BatchResult& result) {
    const Signature& signature = loaded.variant->signature;
    const Time start = monotonic_now();
    ASSIGN_OR_RETURN(const std::vector<OnnxInput> inputs, gatherer_.gather(signature, parts));
    const Time gathered = monotonic_now();
    result.input += gathered - start;
    auto outputs = loaded.model->run(inputs, output_names(loaded, parts), run_options_.get());
    const Time ran = monotonic_now();
    result.run += ran - gathered;
    if (!outputs.ok()) return outputs.status();
    uint32_t items = 0, first = 0;
    for (const BatchPart& part : parts) items += part.items;
    std::vector<absl::StatusOr<std::vector<Tensor>>> scattered;
    for (const BatchPart& part : parts) {
      scattered.push_back(scatter(signature, *outputs, part, first, items));
      if (!scattered.back().ok()) return scattered.back().status();
      first += part.items;
    }
    std::move(scattered.begin(), scattered.end(), std::back_inserter(result.parts));
    result.output += monotonic_now() - ran;
    return absl::OkStatus();
  }

  const std::shared_ptr<Sessions> sessions_;
  const OrtPtr<OrtRunOptions> run_options_;
  moodycamel::ConcurrentQueue<BatchRun> batches_;
  moodycamel::ConcurrentQueue<absl::AnyInvocable<void()>> commands_;
  Parker parker_;
  // The thread's own:
  bool stopped_ = false;
  absl::flat_hash_map<VariantId, Loaded> variants_;
  Gatherer gatherer_;
  std::thread thread_;
};

class OnnxExecutors : public ExecutorFactory {
 public:
  explicit OnnxExecutors(OnnxOptions options)
      : sessions_(std::make_shared<Sessions>(std::move(options))) {}
  std::unique_ptr<Executor> make() override {
    return watch_.over([sessions = sessions_] { return std::make_unique<OnnxExecutor>(sessions); });
  }

 private:
  std::shared_ptr<Sessions> sessions_;
  RunWatch watch_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ExecutorFactory>> make_onnx_executors(const WorkerType& type) {
  if (type.threads < 1) return invalid("workers.threads is 0, expected at least 1");
  const OnnxOptions wanted{type.provider, type.threads};
  if (absl::Status good = check_provider(wanted); !good.ok()) {
    return invalid("workers.{}", message(good));
  }
  return std::make_unique<OnnxExecutors>(wanted);
}

}  // namespace fermata::engine
