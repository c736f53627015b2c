#pragma once

#include <memory>
#include <vector>

#include "policy/batch/min_tree.h"
#include "policy/batcher.h"
#include "policy/ensemble/ensemble_batcher.h"
#include "policy/parts.h"
#include "policy/ranker.h"
#include "policy/scheduler.h"
#include "policy/variants/group_batcher.h"

namespace fermata::policy {

// Batchers and one ranker in one thread: passes offers, grants and answers
// between them until they are quiet. Adds nothing to what they decide, so the
// same batchers and ranker decide the same when messages carry them.
class PoolScheduler final : public Scheduler {
 public:
  explicit PoolScheduler(Parts parts, const GroupSettings& settings = {})
      : make_batcher_(parts.make_batcher), ranker_(std::move(parts.ranker)), settings_(settings) {}

  bool serves_applications() const override { return true; }
  KeyId add_application(const ApplicationInfo& info) override;
  void learned(const Task& task, Evidence evidence, Time now, Decisions& out) override;
  bool serves_ensembles() const override { return true; }
  KeyId add_ensemble(const EnsembleInfo& info) override;
  void scored(const Task& query, const Difficulty& difficulty, Time now, Decisions& out) override;
  void failed(WorkerId worker, const Task& query) override;

  KeyId add_key(KeyInfo info) override;
  void remove_key(KeyId key) override;
  void update_latency(KeyId key, LatencyByType latency, Time now, Decisions& out) override;
  void set_delay_bound(DelayBound bound) override;
  WorkerId add_worker(Time now, Decisions& out, uint32_t type, int64_t memory_bytes) override;
  void nominate(const Task& task, Time now, Decisions& out) override;
  bool withdraw(const Task& task, Time now, Decisions& out) override;
  void freed(WorkerId worker, Time now, Decisions& out) override;
  void tick(Time now, Decisions& out) override;
  Time next_wake() const override;
  uint64_t waiting_items(KeyId key) const override;
  std::vector<plan::GroupProblem> last_problems() const override;

 private:
  struct WorkerInfo {
    uint32_t type = 0;
    int64_t memory_bytes = kUnlimitedMemory;
    uint32_t running = 0;  // batches bound and not yet ended
  };
  KeyId new_key();
  GroupBatcher& group();
  EnsembleBatcher& ensembles();
  void settle(KeyId key, Time now, Decisions& out);
  void complete(Batch& batch, KeyId slot, Time now, Decisions& out);
  void serve_grants(Time now, Decisions& out);
  Time worker_is_free_by(const Grant& grant, Time now) const;
  void explain_drops(size_t from, Time now, Decisions& out) const;

  const MakeBatcher make_batcher_;
  const std::unique_ptr<Ranker> ranker_;
  const GroupSettings settings_;
  std::vector<std::unique_ptr<Batcher>> batchers_;  // by key; null once removed
  // By key: whose batcher it has. All applications share the one of group_key_, all ensembles
  // the one of ensembles_key_.
  std::vector<KeyId> slot_;
  std::vector<KeyInfo> infos_;  // by key
  KeyId group_key_;             // none: there has been no application
  GroupBatcher* group_ = nullptr;
  KeyId ensembles_key_;  // none: there has been no ensemble
  EnsembleBatcher* ensembles_ = nullptr;
  std::vector<KeyId> free_keys_;  // removed: the next keys take their ids
  MinTree wakes_;                 // by key
  DelayBound delay_;
  std::vector<WorkerInfo> workers_;
  std::vector<KeyId> joined_;  // scratch of complete()
  std::vector<Grant> grants_;  // to be served, oldest first; empty between calls
};

}  // namespace fermata::policy
