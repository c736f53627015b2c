#include "engine/execute/onnx_executor.h"

#include <concurrentqueue.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <deque>
#include <future>
#include <mutex>
#include <optional>
#include <thread>

#include "absl/container/flat_hash_map.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/status.h"
#include "engine/catalog.h"
#include "engine/execute/gather.h"
#include "engine/execute/run_watch.h"
#include "engine/execute/stages.h"
#include "engine/threads/parker.h"
#include "model/latency.h"

namespace fermata::engine {
namespace {

using StagesPtr = std::shared_ptr<const Stages>;

// Sessions by variant, for as long as a worker has them; those of a dynamic network are one
// variant's, whatever the width.
class Sessions {
 public:
  explicit Sessions(OnnxOptions options) : options_(std::move(options)) {}

  absl::StatusOr<StagesPtr> open(const Variant& variant, bool dynamic) {
    const std::lock_guard lock(mutex_);
    std::weak_ptr<const Stages>& shared = by_weights_[variant.loads()];
    if (StagesPtr stages = shared.lock()) return stages;
    StagesPtr stages;
    if (dynamic) {
      ASSIGN_OR_RETURN(stages, load_stages(variant.file, options_));
    } else {
      ASSIGN_OR_RETURN(auto model, OnnxModel::load(variant.file, options_));
      stages = std::make_shared<const Stages>(Stages{std::move(model)});
    }
    shared = stages;
    return stages;
  }

 private:
  const OnnxOptions options_;
  std::mutex mutex_;
  absl::flat_hash_map<VariantId, std::weak_ptr<const Stages>> by_weights_;
};

struct Loaded {
  std::shared_ptr<const Variant> variant;
  StagesPtr stages;
  std::vector<std::string> outputs;  // all of them
  std::optional<DynamicNetwork> network;
  double item_elements = 0;  // of its inputs
  bool ran = false;          // it has run, here or when it was tried
  // By stage: how long it and those after it take; none where that was not measured.
  std::vector<std::shared_ptr<const LatencyTable>> rest;
};

double item_elements(const Signature& signature) {
  double sum = 0;
  for (const TensorSpec& spec : signature.inputs) {
    double count = 1;
    for (const int64_t dim : spec.dims) count *= static_cast<double>(std::max<int64_t>(dim, 1));
    sum += count;
  }
  return sum;
}

std::vector<std::shared_ptr<const LatencyTable>> rest_of(const Variant& variant, size_t stages) {
  std::vector<std::shared_ptr<const LatencyTable>> rest;
  for (size_t first = 0; first < stages; ++first) {
    TableLatency table;
    for (const auto& [items, batch] : variant.profile.batches) {
      if (batch.stages_ms.size() != stages) continue;
      for (size_t s = first; s < stages; ++s) table.points_ms[items] += batch.stages_ms[s];
    }
    auto made = LatencyTable::make(table, variant.signature.max_batch);
    rest.push_back(made.ok() ? *std::move(made) : nullptr);
  }
  return rest;
}

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

cpu_set_t processors_of(pthread_t thread) {
  cpu_set_t processors;
  CPU_ZERO(&processors);
  (void)pthread_getaffinity_np(thread, sizeof(processors), &processors);
  return processors;
}

// A wish: where the system does not grant it the thread runs anywhere.
void set_processors(pthread_t thread, const cpu_set_t& processors) {
  (void)pthread_setaffinity_np(thread, sizeof(processors), &processors);
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

  // Threads of a session's own run where the thread may that makes it.
  absl::Status load(std::shared_ptr<const Variant> variant) override {
    ASSIGN_OR_RETURN(const auto network, dynamic_network(variant->config));
    const cpu_set_t before = processors_of(pthread_self());
    if (processors_) set_processors(pthread_self(), *processors_);
    absl::StatusOr<StagesPtr> stages = sessions_->open(*variant, network.has_value());
    if (processors_) set_processors(pthread_self(), before);
    RETURN_IF_ERROR(stages.status());
    Loaded loaded{std::move(variant), *std::move(stages), {}, network};
    loaded.ran = loaded.variant->tried || loaded.variant->profile.measured();
    loaded.item_elements = item_elements(loaded.variant->signature);
    loaded.rest = rest_of(*loaded.variant, loaded.stages->size());
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
    batches_.enqueue(in_order_, std::move(batch));
    parker_.unpark();
  }

  void pin(const std::vector<uint32_t>& processors) override {
    processors_.emplace();
    CPU_ZERO(&*processors_);
    for (const uint32_t processor : processors) CPU_SET(processor, &*processors_);
    set_processors(thread_.native_handle(), *processors_);
  }

  // Between two nodes of the graph, and of those inside it, the library looks at this.
  void terminate() override { (void)take_status(ort().RunOptionsSetTerminate(run_options_.get())); }

 private:
  void post(absl::AnyInvocable<void()> command) {
    {
      const std::lock_guard lock(commands_mutex_);
      commands_.push_back(std::move(command));
    }
    parker_.unpark();
  }

  bool next(absl::AnyInvocable<void()>& command) {
    const std::lock_guard lock(commands_mutex_);
    if (commands_.empty()) return false;
    command = std::move(commands_.front());
    commands_.pop_front();
    return true;
  }

  void loop() {
    while (!stopped_) {
      BatchRun batch;
      absl::AnyInvocable<void()> command;
      if (batches_.try_dequeue(batch)) {
        run_batch(batch);
      } else if (next(command)) {
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
    to_the_end_ = batch.to_the_end;
    const absl::Status whole = try_parts(it->second, batch.parts, result);
    if (!whole.ok() && batch.parts.size() > 1) {
      result.parts.clear();
      result.stages.clear();
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
  absl::Status try_parts(Loaded& loaded, absl::Span<const BatchPart> parts, BatchResult& result) {
    const Signature& signature = loaded.variant->signature;
    const Time start = monotonic_now();
    ASSIGN_OR_RETURN(const std::vector<OnnxInput> inputs, gatherer_.gather(signature, parts));
    const Time gathered = monotonic_now();
    result.input += gathered - start;
    auto outputs = run_model(loaded, inputs, output_names(loaded, parts), result);
    const Time ran = monotonic_now();
    result.run += ran - gathered;
    if (!outputs.ok()) return blamed(outputs.status(), loaded.ran);
    loaded.ran = true;
    const uint32_t items = items_of(parts);
    uint32_t first = 0;
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

  // A model that has run fails for what it was given; one that never has, for what it is.
  static absl::Status blamed(const absl::Status& status, bool ran) {
    if (!absl::IsInvalidArgument(status)) return status;
    return ran ? invalid("the model rejects its input: {}", message(status))
               : internal("the model fails: {}", message(status));
  }

  absl::StatusOr<std::vector<Tensor>> run_model(const Loaded& loaded,
                                                const std::vector<OnnxInput>& inputs,
                                                const std::vector<std::string>& outputs,
                                                BatchResult& result) {
    if (!loaded.network) {
      return loaded.stages->front()->run(inputs, outputs, run_options_.get());
    }
    DynamicNetwork network = *loaded.network;
    if (to_the_end_) network.exit_above.reset();
    const auto all = static_cast<uint32_t>(inputs.front().shape.front());
    std::vector<StageRun> ran;
    auto answers = run_stages(
        *loaded.stages, inputs, outputs, network,
        [&](size_t stage, uint32_t left) { return width_for(loaded, stage, all, left); },
        run_options_.get(), ran);
    if (answers.ok()) add_stages(ran, result.stages);
    return answers;
  }

  // Parts that run alone, since they failed together, count as one batch.
  static void add_stages(const std::vector<StageRun>& ran, std::vector<StageRun>& all) {
    all.resize(std::max(all.size(), ran.size()));
    for (size_t s = 0; s < ran.size(); ++s) {
      all[s].items += ran[s].items;
      all[s].took += ran[s].took;
      all[s].widened = all[s].widened || ran[s].widened;
    }
  }

  // Where items have left, the widest of the network's widths here that takes the others to the end
  // in the time that all of them would have needed. Latencies of other widths are of inputs of
  // their own size, so they are taken in proportion.
  int64_t width_for(const Loaded& loaded, size_t stage, uint32_t all, uint32_t left) const {
    int64_t width = loaded.network->width;
    if (!loaded.network->widen || left == all || loaded.rest[stage] == nullptr) return width;
    const Duration time = (*loaded.rest[stage])(all);
    for (const auto& [id, other] : variants_) {
      if (other.stages != loaded.stages || other.network->width <= width) continue;
      if (other.rest[stage] == nullptr) continue;
      const double takes_ms =
          (*other.rest[stage])(left).millis() * loaded.item_elements / other.item_elements;
      if (takes_ms <= time.millis()) width = other.network->width;
    }
    return width;
  }

  const std::shared_ptr<Sessions> sessions_;
  const OrtPtr<OrtRunOptions> run_options_;
  std::optional<cpu_set_t> processors_;
  moodycamel::ConcurrentQueue<BatchRun> batches_;
  moodycamel::ProducerToken in_order_{batches_};  // whichever threads they come from
  // In the order in which they came, whoever sent them: an unload and a load of one variant.
  std::mutex commands_mutex_;
  std::deque<absl::AnyInvocable<void()>> commands_;
  Parker parker_;
  // The thread's own:
  bool stopped_ = false;
  bool to_the_end_ = false;  // of the batch that runs
  absl::flat_hash_map<VariantId, Loaded> variants_;
  Gatherer gatherer_;
  std::thread thread_;
};

class OnnxExecutors : public ExecutorFactory {
 public:
  explicit OnnxExecutors(OnnxOptions options)
      : options_(std::move(options)), sessions_(std::make_shared<Sessions>(options_)) {}
  // Workers of one thread share sessions; others have threads in theirs.
  std::shared_ptr<Executor> make() override {
    const bool shared = options_.threads == 1 || opened_ != nullptr;
    auto sessions = shared ? sessions_ : std::make_shared<Sessions>(options_);
    return watch_.over([sessions] { return std::make_unique<OnnxExecutor>(sessions); });
  }
  absl::StatusOr<std::vector<FileSignature>> open(const Variant& variant) override {
    ASSIGN_OR_RETURN(const auto network, dynamic_network(variant.config));
    ASSIGN_OR_RETURN(opened_, sessions_->open(variant, network.has_value()));
    std::vector<FileSignature> files;
    for (const auto& stage : *opened_) files.push_back(stage->signature());
    return files;
  }

 private:
  const OnnxOptions options_;
  std::shared_ptr<Sessions> sessions_;
  StagesPtr opened_;  // kept for the executors that are made
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
