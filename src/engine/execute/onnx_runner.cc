#include "engine/execute/onnx_runner.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <mutex>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "base/check.h"
#include "base/status.h"
#include "engine/execute/by_variant.h"
#include "engine/execute/stages.h"
#include "model/dynamic_network.h"
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
  std::optional<DynamicNetwork> network;
  double item_elements = 0;  // of its inputs
  bool ran = false;          // it has run, here or when it was tried; the running thread's own
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

class OnnxRunner : public ModelRunner {
 public:
  explicit OnnxRunner(std::shared_ptr<Sessions> sessions)
      : sessions_(std::move(sessions)), run_options_(new_run_options()) {}

  // Threads of a session's own run where the thread may that makes it.
  absl::Status load(std::shared_ptr<const Variant> variant) override {
    ASSIGN_OR_RETURN(const auto network, dynamic_network(variant->config));
    const cpu_set_t before = processors_of(pthread_self());
    const std::optional<cpu_set_t> own = processors();
    if (own) set_processors(pthread_self(), *own);
    absl::StatusOr<StagesPtr> stages = sessions_->open(*variant, network.has_value());
    if (own) set_processors(pthread_self(), before);
    RETURN_IF_ERROR(stages.status());
    auto loaded = std::make_shared<Loaded>(Loaded{std::move(variant), *std::move(stages), network});
    loaded->ran = loaded->variant->tried || loaded->variant->profile.measured();
    loaded->item_elements = item_elements(loaded->variant->signature);
    loaded->rest = rest_of(*loaded->variant, loaded->stages->size());
    variants_.put(loaded->variant->id, loaded);
    return absl::OkStatus();
  }

  void unload(VariantId id) override { variants_.remove(id); }

  absl::StatusOr<std::vector<Tensor>> run(const WholeBatch& batch,
                                          std::vector<StageRun>& ran) override {
    const std::shared_ptr<Loaded> loaded = variants_.at(batch.variant);
    if (batch.first) (void)take_status(ort().RunOptionsUnsetTerminate(run_options_.get()));
    auto outputs = run_model(*loaded, batch, ran);
    if (!outputs.ok()) return blame(outputs.status(), loaded->ran);
    loaded->ran = true;
    return outputs;
  }

  void pin(const std::vector<uint32_t>& processors) override {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const uint32_t processor : processors) CPU_SET(processor, &set);
    const std::lock_guard lock(mutex_);
    processors_ = set;
  }

  std::unique_ptr<ModelRunner> successor() const override {
    return std::make_unique<OnnxRunner>(sessions_);
  }

  // Between two nodes of the graph, and of those inside it, the library looks at this.
  void terminate() override { (void)take_status(ort().RunOptionsSetTerminate(run_options_.get())); }

 private:
  std::optional<cpu_set_t> processors() const {
    const std::lock_guard lock(mutex_);
    return processors_;
  }

  absl::StatusOr<std::vector<Tensor>> run_model(const Loaded& loaded, const WholeBatch& batch,
                                                std::vector<StageRun>& stages) {
    if (!loaded.network) {
      return loaded.stages->front()->run(*batch.inputs, *batch.outputs, run_options_.get());
    }
    DynamicNetwork network = *loaded.network;
    if (batch.to_the_end) network.exit_above.reset();
    const auto all = static_cast<uint32_t>(batch.inputs->front().shape.front());
    std::vector<StageRun> ran;
    auto answers = run_stages(
        *loaded.stages, *batch.inputs, *batch.outputs, network,
        [&](size_t stage, uint32_t left) { return width_for(loaded, stage, all, left); },
        run_options_.get(), ran);
    if (answers.ok()) add_stages(ran, stages);
    return answers;
  }

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
    variants_.each([&](const Loaded& other) {
      if (other.stages != loaded.stages || other.network->width <= width) return;
      if (other.rest[stage] == nullptr) return;
      const double takes_ms =
          (*other.rest[stage])(left).millis() * loaded.item_elements / other.item_elements;
      if (takes_ms <= time.millis()) width = other.network->width;
    });
    return width;
  }

  const std::shared_ptr<Sessions> sessions_;
  const OrtPtr<OrtRunOptions> run_options_;
  mutable std::mutex mutex_;
  std::optional<cpu_set_t> processors_;
  ByVariant<Loaded> variants_;
};

class OnnxRunners : public ModelRunners {
 public:
  explicit OnnxRunners(OnnxOptions options)
      : options_(std::move(options)), sessions_(std::make_shared<Sessions>(options_)) {}
  // Workers of one thread share sessions; others have threads in theirs.
  std::unique_ptr<ModelRunner> make() override {
    const bool shared = options_.threads == 1 || opened_ != nullptr;
    return std::make_unique<OnnxRunner>(shared ? sessions_ : std::make_shared<Sessions>(options_));
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
  StagesPtr opened_;  // kept for the runners that are made
};

}  // namespace

absl::Status probe_onnx(const WorkerType& type) {
  return check_provider({type.provider, type.threads});
}

std::unique_ptr<ModelRunners> make_onnx_runners(const WorkerType& type) {
  return std::make_unique<OnnxRunners>(OnnxOptions{type.provider, type.threads});
}

}  // namespace fermata::engine
