#pragma once

#include <vector>

#include "policy/batch/min_tree.h"
#include "policy/types.h"

namespace fermata::policy {

// A worker as everybody sees it.
struct WorkerView {
  uint32_t type = 0;
  uint32_t running = 0;  // batches bound and not yet ended: two when the next one is bound ahead
  bool granted = false;  // a batcher has it and has not answered
  Time ends;             // expected, of the batch that runs
  Time free_at;          // expected, of all of them
};

// What is known of a pool: its workers, what they run and until when; and of every key what it
// offers and what is expected of it (Offer::outlook). The ranker writes it, everybody reads it.
class PoolView {
 public:
  void add_key(KeyId key);
  WorkerId add_worker(uint32_t type);

  // A batch that ends then was bound to the worker; one has ended.
  void bound(WorkerId worker, Time free_at);
  void freed(WorkerId worker, Time now);
  void set_granted(WorkerId worker, bool granted);
  void set_offer(const Offer& offer);

  const std::vector<WorkerView>& workers() const { return workers_; }
  const WorkerView& worker(WorkerId worker) const { return workers_[worker.index()]; }
  uint32_t types() const { return static_cast<uint32_t>(types_.size()); }
  // Workers of the type that run nothing and are not granted; of any of the types, a bit each.
  uint32_t idle(uint32_t type) const { return types_[type].idle; }
  bool any_idle(uint32_t types) const;
  // When the next busy worker of the type is expected to be free, one that is late at its
  // expected moment, which is past; infinite where none is busy. `but` does not count. O(log n).
  Time next_free(uint32_t type, WorkerId but);
  const std::vector<Offer>& offers() const { return offers_; }  // by key
  const Offer& offer(KeyId key) const { return offers_[key.index()]; }
  // The least Outlook::slack of all keys but one. O(log keys).
  Duration least_slack(KeyId but);

 private:
  struct Type {
    uint32_t idle = 0;
    MinTree busy;  // by worker: when it is expected to be free
  };
  void enter(WorkerId worker, bool was_idle);
  static Time least(MinTree& tree, size_t but);
  static bool is_idle(const WorkerView& w) { return !w.granted && w.running == 0; }

  std::vector<WorkerView> workers_;
  std::vector<Type> types_;
  std::vector<Offer> offers_;
  MinTree slack_;  // by key, counted from Time()
};

}  // namespace fermata::policy
