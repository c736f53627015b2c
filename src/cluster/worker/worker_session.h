#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "cluster/wire/channel.h"
#include "cluster/worker/holders.h"
#include "cluster/worker/ways.h"
#include "cluster/worker/worker_slots.h"
#include "engine/catalog.h"
#include "engine/execute/executor.h"

namespace fermata::cluster {

// The connections of a host with its scheduler, a thread each. They end together.
class WorkerSession {
 public:
  // A model of this host that is what the scheduler has.
  using Open = std::function<absl::StatusOr<std::shared_ptr<const engine::Variant>>(const Load&)>;
  // The first `count` of the slots take part, which live longer, as the others do.
  WorkerSession(WorkerSlots& slots, uint32_t count, Ways& ways, Keeper& keeper, Open open)
      : slots_(slots), keeper_(keeper), open_(std::move(open)) {
    slots_.begin();
    for (uint32_t i = 0; i < count; ++i) {
      holders_.push_back(std::make_unique<Holders>(ways, keeper));
    }
  }
  // What runs ends first, and frontends get its outputs.
  ~WorkerSession();

  // Batches of a slot, or loads.
  void serve(std::shared_ptr<Channel> channel, std::optional<uint32_t> slot);
  // Answers beats until nothing is heard for `silence`: why. Each is a moment for the keeper to
  // forget what is late. Blocks.
  absl::Status beat(Channel& control, Duration silence, const std::atomic<bool>& leaving);

 private:
  absl::Status serve_slot(Channel& channel, uint32_t slot);
  absl::Status serve_loads(Channel& channel);
  absl::Status run(Channel& channel, uint32_t slot, const Frame& frame);
  absl::Status run_elsewhere(Channel& channel, uint32_t slot, const Batch& asked,
                             const engine::Variant& variant);
  engine::BatchResult execute(uint32_t slot, VariantId variant, const engine::BatchRun& run);
  static absl::Status refuse(Channel& channel, const Batch& batch, const absl::Status& why);
  absl::Status load(const Load& load, Loaded& answer);

  WorkerSlots& slots_;
  Keeper& keeper_;
  std::vector<std::unique_ptr<Holders>> holders_;  // by slot
  const Open open_;
  std::vector<std::shared_ptr<Channel>> channels_;
  std::vector<std::thread> threads_;
};

}  // namespace fermata::cluster
