#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "cluster/channel.h"
#include "cluster/holders.h"
#include "engine/catalog.h"
#include "engine/execute/executor.h"

namespace fermata::cluster {

// The connections of a host with its scheduler, a thread each. They end together.
class WorkerSession {
 public:
  // A model of this host that is what the scheduler has.
  using Open = std::function<absl::StatusOr<std::shared_ptr<const engine::Variant>>(const Load&)>;
  WorkerSession(std::vector<std::shared_ptr<engine::Executor>> executors, const TlsFiles& tls,
                Lookout& lookout, Open open)
      : executors_(std::move(executors)), loaded_(executors_.size()), open_(std::move(open)) {
    for (size_t i = 0; i < executors_.size(); ++i) {
      holders_.push_back(std::make_unique<Holders>(tls, lookout));
    }
  }
  // What runs ends first, and frontends get its outputs.
  ~WorkerSession();

  // Batches of a slot, or loads.
  void serve(std::shared_ptr<Channel> channel, std::optional<uint32_t> slot);
  // Answers beats until nothing is heard for `silence`: why. Blocks.
  absl::Status beat(Channel& control, Duration silence, const std::atomic<bool>& leaving);

 private:
  using Loads = std::map<uint32_t, std::shared_ptr<const engine::Variant>>;  // by its number
  absl::Status serve_slot(Channel& channel, uint32_t slot);
  absl::Status serve_loads(Channel& channel);
  absl::Status run(Channel& channel, uint32_t slot, const Frame& frame);
  absl::Status run_elsewhere(Channel& channel, uint32_t slot, const Batch& asked,
                             const engine::Variant& variant);
  engine::BatchResult execute(uint32_t slot, VariantId variant, const engine::BatchRun& run);
  static absl::Status refuse(Channel& channel, const Batch& batch, const absl::Status& why);
  void unload(uint32_t slot, uint32_t variant);
  bool has(uint32_t slot, VariantId id) const;  // under the lock
  absl::Status load(const Load& load, Loaded& answer);
  std::shared_ptr<const engine::Variant> find(uint32_t slot, uint32_t variant);

  const std::vector<std::shared_ptr<engine::Executor>> executors_;  // by slot
  std::vector<std::unique_ptr<Holders>> holders_;                   // by slot
  std::mutex mutex_;
  std::vector<Loads> loaded_;  // by slot
  const Open open_;
  std::vector<std::shared_ptr<Channel>> channels_;
  std::vector<std::thread> threads_;
};

}  // namespace fermata::cluster
