#pragma once

#include <array>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "policy/batch/min_tree.h"
#include "policy/pool/residents.h"
#include "policy/types.h"

namespace fermata::policy {

// A worker as everybody sees it.
struct WorkerView {
  uint32_t type = 0;
  uint32_t running = 0;  // batches bound and not yet ended: two when the next one is bound ahead
  bool granted = false;  // a batcher has it and has not answered
  bool away = false;     // gets no batch, whatever it still runs
  Time ends;             // expected, of the batch that runs
  Time free_at;          // expected, of all of them; past where it is idle
  // How many of its batches have ended: the next that is bound to it is its (ended + running)th.
  uint64_t ended = 0;
};

// What is known of a pool: its workers, what they run and until when, and what they hold; and of
// every key what it runs, what it offers and what is expected of it (Offer::outlook). A pool has
// one, which everybody reads; its scheduler and its ranker write it, in one thread.
class PoolView {
 public:
  PoolView() { alike_.fill(kAnyType); }

  // An id for a key; a key that is gone gives its own back.
  KeyId new_key();
  void free_key(KeyId key) { free_keys_.push_back(key); }
  void add_key(KeyId key);  // that may offer
  // What batches of the key run; of keys that only offer there is nothing.
  void add_model(KeyId key, KeyInfo info);
  void remove_model(KeyId key);
  void set_latency(KeyId key, LatencyByType latency) {
    infos_[key.index()].latency = std::move(latency);
  }
  WorkerId add_worker(uint32_t type, int64_t memory_bytes = kUnlimitedMemory);

  // A batch that ends then was bound to the worker; one has ended.
  void bound(WorkerId worker, Time free_at);
  void freed(WorkerId worker, Time now);
  void set_granted(WorkerId worker, bool granted);
  void set_away(WorkerId worker, bool away);
  void set_offer(const Offer& offer);

  const std::vector<WorkerView>& workers() const { return workers_; }
  const WorkerView& worker(WorkerId worker) const { return workers_[worker.index()]; }
  uint32_t serving() const { return serving_; }  // workers that are not away
  uint32_t types() const { return static_cast<uint32_t>(types_.size()); }
  // Workers of the type that run nothing and are not granted.
  uint32_t idle(uint32_t type) const { return types_[type].idle; }
  // The types that are as fast as it, by the profiles of all models that came: a bit each.
  uint32_t alike(uint32_t type) const { return alike_[type]; }
  // When the next busy worker of the type is expected to be free, one that is late at its
  // expected moment, which is past; infinite where none is busy. `but` does not count. O(log n).
  Time next_free(uint32_t type, WorkerId but);
  Time next_free(uint32_t type) const { return types_[type].busy.top(); }
  bool is_model(KeyId key) const {
    return key.index() < infos_.size() && !infos_[key.index()].latency.tables().empty();
  }
  const KeyInfo& info(KeyId key) const { return infos_[key.index()]; }
  const LatencyTable& latency(KeyId key, WorkerId worker) const {
    return info(key).latency.on(workers_[worker.index()].type);
  }
  // Types of the workers that may run it: where its variant is loaded ahead, those that have it, or
  // all while none has.
  uint32_t types_for(KeyId key) const {  // which set_offer() leaves of Offer::types
    return is_model(key) ? types_of_model(key) : kAnyType;
  }
  // As Reaches has it.
  void set_reaches(KeyId key, WorkerId worker, bool reaches);
  bool reaches(KeyId key, WorkerId worker) const {
    return unreached_.empty() || !unreached_.contains({key, worker});
  }
  Residents& residents() { return residents_; }
  const Residents& residents() const { return residents_; }
  const std::vector<Offer>& offers() const { return offers_; }  // by key
  const Offer& offer(KeyId key) const { return offers_[key.index()]; }
  // The least Outlook::slack of all keys but one. O(log keys).
  Duration least_slack(KeyId but);
  // Calls visit(offer), by ascending key, for those whose slack is less than `slack`, and those
  // that have tasks with a deadline waiting the first of which must start before `until`.
  // O(log keys) for each.
  template <class Visit>
  void each_pressed(Duration slack, Time until, const Visit& visit) const {
    slack_.each_before(Time() + slack, first_by_, until, [&](size_t key) { visit(offers_[key]); });
  }

 private:
  struct Type {
    uint32_t idle = 0;
    MinTree busy;  // by worker: when it is expected to be free
  };
  uint32_t types_of_model(KeyId key) const;
  void enter(WorkerId worker, bool was_idle);
  void tell_apart(const LatencyByType& latency);
  static Time least(MinTree& tree, size_t but);
  static bool is_idle(const WorkerView& w) { return !w.granted && !w.away && w.running == 0; }

  std::vector<WorkerView> workers_;
  uint32_t serving_ = 0;
  std::vector<Type> types_;
  std::array<uint32_t, kMostWorkerTypes> alike_;
  uint32_t keys_ = 0;
  std::vector<KeyId> free_keys_;
  std::vector<KeyInfo> infos_;  // by key
  Residents residents_;
  absl::flat_hash_set<std::pair<KeyId, WorkerId>> unreached_;
  std::vector<Offer> offers_;
  MinTree slack_;     // by key, counted from Time()
  MinTree first_by_;  // by key: Outlook::first_by of those that wait with a deadline
};

}  // namespace fermata::policy
