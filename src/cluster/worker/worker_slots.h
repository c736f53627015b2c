#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "engine/catalog.h"
#include "engine/execute/executor.h"

namespace fermata::cluster {

// The workers of a host and what each has loaded, whichever scheduler they serve: models stay
// where they are while one scheduler follows another, which knows them by numbers of its own.
// Thread-safe, but for begin(), which no session may outlive.
class WorkerSlots {
 public:
  using Model = std::shared_ptr<const engine::Variant>;
  explicit WorkerSlots(std::vector<std::shared_ptr<engine::Executor>> executors)
      : slots_(executors.size()) {
    for (size_t i = 0; i < slots_.size(); ++i) slots_[i].executor = std::move(executors[i]);
  }
  size_t size() const { return slots_.size(); }
  engine::Executor& executor(uint32_t slot) { return *slots_[slot].executor; }

  // Another scheduler is served: its numbers mean nothing yet.
  void begin();
  absl::Status load(uint32_t slot, uint32_t number, const Model& model);
  // What else the scheduler does not know is unloaded, once: it has said what it wants, since it
  // lets this slot run.
  void settle(uint32_t slot);
  void unload(uint32_t slot, uint32_t number);
  Model find(uint32_t slot, uint32_t number);  // null: it has none of that number

 private:
  struct Slot {
    std::shared_ptr<engine::Executor> executor;
    std::map<uint32_t, Model> by_number;  // several numbers may be of one model
    std::set<VariantId> loaded;
    bool settled = false;
  };
  static bool is_known(const Slot& slot, VariantId id);

  std::mutex mutex_;
  std::vector<Slot> slots_;
};

}  // namespace fermata::cluster
