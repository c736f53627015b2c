#include "engine/execute/backend.h"

#include <array>
#include <map>
#include <mutex>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "base/check.h"
#include "base/status.h"
#include "engine/execute/onnx_runner.h"
#include "engine/execute/openvino_runner.h"
#include "engine/execute/python_backend.h"
#include "model/model_kind.h"

namespace fermata::engine {
namespace {

constexpr std::array kBackends = {
    Backend{.name = "onnxruntime", .probe = probe_onnx, .make = make_onnx_runners, .copied = true},
    Backend{.name = "python",
            .probe = [](const WorkerType&) { return absl::OkStatus(); },
            .make = nullptr,
            .command = python_command,
            .program = python_program},
    Backend{.name = "openvino", .probe = probe_openvino, .make = make_openvino_runners},
};

// By backend, made when a model first needs it.
class AllRunners : public ModelRunners {
 public:
  explicit AllRunners(const WorkerType& type) : type_(type) {}

  absl::StatusOr<std::vector<FileSignature>> open(const Variant& variant) override {
    return of(backend_of(variant.config)).open(variant);
  }
  std::unique_ptr<ModelRunner> make() override;

  ModelRunners& of(const Backend& backend) {
    const std::lock_guard lock(mutex_);
    auto& runners = made_[&backend];
    if (runners == nullptr) runners = backend.make(type_);
    return *runners;
  }

 private:
  const WorkerType type_;
  std::mutex mutex_;
  std::map<const Backend*, std::unique_ptr<ModelRunners>> made_;
};

// What the runners of one worker share, the first and its successors: a runner of each backend, of
// which theirs are successors.
class OfWorker {
 public:
  explicit OfWorker(AllRunners& all) : all_(all) {}
  std::unique_ptr<ModelRunner> make(const Backend& backend) {
    const std::lock_guard lock(mutex_);
    auto& first = firsts_[&backend];
    if (first == nullptr) first = all_.of(backend).make();
    return first->successor();
  }

 private:
  AllRunners& all_;
  std::mutex mutex_;
  std::map<const Backend*, std::unique_ptr<ModelRunner>> firsts_;
};

class AnyRunner : public ModelRunner {
 public:
  explicit AnyRunner(std::shared_ptr<OfWorker> shared) : shared_(std::move(shared)) {}

  absl::Status load(std::shared_ptr<const Variant> variant) override {
    if (backend_of(variant->config).make == nullptr) {
      return unimplemented("{}: runs in a process of its own only", variant->file);
    }
    ModelRunner* runner = nullptr;
    {
      const std::lock_guard lock(mutex_);
      auto& made = runners_[&backend_of(variant->config)];
      if (made == nullptr) made = shared_->make(backend_of(variant->config));
      if (pinned_) made->pin(processors_);
      runner = by_variant_[variant->id] = made.get();
    }
    return runner->load(std::move(variant));
  }
  void unload(VariantId id) override {
    const std::lock_guard lock(mutex_);
    if (const auto it = by_variant_.find(id); it != by_variant_.end()) {
      it->second->unload(id);
      by_variant_.erase(it);
    }
  }
  absl::StatusOr<std::vector<Tensor>> run(const WholeBatch& batch,
                                          std::vector<StageRun>& ran) override {
    ModelRunner* runner = nullptr;
    {
      const std::lock_guard lock(mutex_);
      const auto it = by_variant_.find(batch.variant);
      FERMATA_CHECK(it != by_variant_.end());
      runner = it->second;
    }
    return runner->run(batch, ran);
  }
  void terminate() override {
    const std::lock_guard lock(mutex_);
    for (const auto& [backend, runner] : runners_) runner->terminate();
  }
  void pin(const std::vector<uint32_t>& processors) override {
    const std::lock_guard lock(mutex_);
    pinned_ = true;
    processors_ = processors;
    for (const auto& [backend, runner] : runners_) runner->pin(processors);
  }
  std::unique_ptr<ModelRunner> successor() const override {
    return std::make_unique<AnyRunner>(shared_);
  }

 private:
  const std::shared_ptr<OfWorker> shared_;
  std::mutex mutex_;
  bool pinned_ = false;
  std::vector<uint32_t> processors_;
  std::map<const Backend*, std::unique_ptr<ModelRunner>> runners_;
  absl::flat_hash_map<VariantId, ModelRunner*> by_variant_;
};

std::unique_ptr<ModelRunner> AllRunners::make() {
  return std::make_unique<AnyRunner>(std::make_shared<OfWorker>(*this));
}

}  // namespace

absl::Status blame(const absl::Status& failed, bool ran) {
  if (!absl::IsInvalidArgument(failed)) return failed;
  if (ran) return invalid("the model rejects its input: {}", message(failed));
  return error(absl::StatusCode::kUnknown,
               "the model, which has never run, fails or rejects its input: {}", message(failed));
}

absl::Span<const Backend> backends() { return kBackends; }

const Backend& backend_of(const inference::ModelConfig& config) {
  const std::string_view name = kind_of(config).backend;
  const auto* const it =
      absl::c_find_if(kBackends, [name](const Backend& b) { return b.name == name; });
  FERMATA_CHECK(it != kBackends.end());
  return *it;
}

std::unique_ptr<ModelRunners> make_runners(const WorkerType& type) {
  return std::make_unique<AllRunners>(type);
}

}  // namespace fermata::engine
