#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "estimate/rate.h"
#include "policy/application.h"
#include "policy/group_problem.h"
#include "policy/residency.h"
#include "policy/types.h"

namespace fermata::policy {

// The waiting tasks of every application of a pool, its workers and what they hold, as one
// GroupProblem that planners read. Decides nothing.
class ApplicationQueue {
 public:
  struct Waiting {
    Task task;
    uint32_t application = 0;
    Evidence evidence;  // empty: not known (yet)
    // The accuracy that the last plan meant it to get; 1 before there was one.
    double planned = 1;
  };

  // A key that applications may name; `info` says what a worker loads for it.
  void add_key(KeyId key, const KeyInfo& info);
  void set_latency(KeyId key, std::shared_ptr<const LatencyTable> latency);
  // Its variants' keys were added before.
  void add_application(KeyId key, const ApplicationInfo& info);
  void remove(KeyId key);  // of a variant that no application names, or of an application
  bool is_application(KeyId key) const;

  void add_worker(uint32_t type, int64_t memory_bytes);
  void set_free_at(WorkerId worker, Time at) { problem_.workers[worker.index()].free_at = at; }
  // The worker whose next batch is being decided: from `start` on, and no other is free as soon.
  void put_first(WorkerId worker, Time start);
  // A batch of the key was bound to the worker: true where it has to be loaded first.
  bool use(WorkerId worker, KeyId key);

  void insert(const Task& task, Time now);
  bool erase(const Task& task);
  bool learned(const Task& task, Evidence evidence);
  // By deadline, then by job.
  const std::vector<Waiting>& waiting() const { return waiting_; }
  void set_planned(size_t at, double accuracy) { waiting_[at].planned = accuracy; }
  uint64_t waiting_items(KeyId key) const;
  // Removes those for which `gone` is true of their place in waiting().
  template <class Gone>
  void erase_if(Gone gone) {
    size_t at = 0;
    std::erase_if(waiting_, [&](const Waiting&) { return gone(at++); });
  }

  // The first `most` waiting tasks as requests, in their order. Valid until the next call
  // that changes anything; the caller sets what a policy needs besides.
  GroupProblem& problem(Time now, size_t most);
  const GroupProblem& last_problem() const { return problem_; }
  KeyId variant_key(uint32_t application, uint32_t variant) const {
    return applications_[application].keys[variant];
  }
  const estimate::RateMeter& rate(uint32_t application) const {
    return applications_[application].rate;
  }
  Duration typical_slo(uint32_t application) const { return applications_[application].slo; }

 private:
  struct Key {
    KeyInfo info;
    uint32_t model = 0;
  };
  struct Application {
    KeyId key;
    std::vector<KeyId> keys;  // by variant
    estimate::RateMeter rate;
    Duration slo = Duration::infinite();  // what tasks lately had
  };

  uint32_t model_of(const KeyInfo& info);
  void hold_for_good(GroupWorker& worker, uint32_t model) const;
  static std::vector<std::shared_ptr<const LatencyTable>> tables(const KeyInfo& info);

  absl::flat_hash_map<KeyId, Key> keys_;
  absl::flat_hash_map<KeyId, uint32_t> application_of_;
  absl::flat_hash_map<VariantId, uint32_t> models_;
  std::vector<Application> applications_;  // as problem_.applications; removed ones have no key
  std::vector<Waiting> waiting_;
  GroupProblem problem_;
  Residency residency_;
};

}  // namespace fermata::policy
