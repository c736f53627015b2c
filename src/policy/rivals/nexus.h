#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "policy/batch/min_tree.h"
#include "policy/batcher.h"
#include "policy/scheduler.h"

namespace fermata::policy {

// After Nexus (Shen et al., SOSP 2019): each key is placed on some workers by its
// rate, its tasks are dealt to them in turn, and each worker goes round its own
// keys, running of each the batch that has gathered (drops by window). Nothing
// moves between workers, so a burst of one model finds only its own workers.
//
// Rates are those the keys were added with; of keys that have none, what came in the last epoch
// of 30 s, and the mean of the others before one has ended. Placed again when keys or workers are
// added and every epoch; what waits where it was dealt stays there. Placement
// takes workers of several types for the slowest of them.
class NexusScheduler final : public Scheduler {
 public:
  KeyId add_key(KeyInfo info) override;
  void remove_key(KeyId key) override;
  void update_latency(KeyId key, LatencyByType latency, Time now, Decisions& out) override;
  void set_delay_bound(DelayBound bound) override;
  WorkerId add_worker(Time now, Decisions& out, uint32_t type, int64_t memory_bytes) override;
  void nominate(const Task& task, Time now, Decisions& out) override;
  bool withdraw(const Task& task, Time now, Decisions& out) override;
  void ended(const BatchEnd& batch, Time now, Decisions& out) override;
  void tick(Time now, Decisions& out) override;
  Time next_wake() const override;
  uint64_t waiting_items(KeyId key) const override;

 private:
  // One key's queue at one worker.
  struct Replica {
    KeyId key;
    WorkerId worker;
    std::unique_ptr<Batcher> batcher;  // null: the place is free
    double share = 0;                  // the rate that is dealt here; 0: no longer placed
    double dealt = 0;                  // tasks since it was placed, divided by the share
  };
  struct KeyState {
    KeyInfo info;
    std::vector<size_t> replicas;
    uint64_t items = 0;                  // in this epoch
    std::optional<double> measured_rps;  // in the last one
    bool removed = false;                // its id comes again
  };
  struct WorkerState {
    uint32_t type = 0;
    bool busy = false;
    Time free_at;
    std::vector<size_t> replicas;
    size_t turn = 0;  // where the round goes on
  };

  void measure(Time now);
  void place();
  size_t replica_of(KeyId key, WorkerId worker);
  size_t new_replica(Replica replica);
  // The first, of a worker that is yet to come.
  uint32_t type_of(WorkerId worker) const {
    return worker.index() < workers_.size() ? workers_[worker.index()].type : 0;
  }
  size_t deal(const KeyState& key);
  void serve(WorkerId worker, Time now, Decisions& out);
  void explain_drops(size_t from, WorkerId worker, Time now, Decisions& out) const;

  DelayBound delay_;
  std::vector<KeyState> keys_;
  std::vector<WorkerState> workers_;
  std::vector<KeyId> free_keys_;
  std::vector<Replica> replicas_;
  std::vector<size_t> free_replicas_;
  MinTree wakes_;  // by replica
  bool stale_ = true;
  Time epoch_began_, next_epoch_;
};

}  // namespace fermata::policy
