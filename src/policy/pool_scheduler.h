#pragma once

#include <memory>
#include <vector>

#include "policy/batcher.h"
#include "policy/min_tree.h"
#include "policy/parts.h"
#include "policy/ranker.h"
#include "policy/scheduler.h"

namespace fermata::policy {

// Batchers and one ranker in one thread: passes offers, grants and answers
// between them until they are quiet. Adds nothing to what they decide, so the
// same batchers and ranker decide the same when messages carry them.
class PoolScheduler final : public Scheduler {
 public:
  explicit PoolScheduler(Parts parts)
      : make_batcher_(parts.make_batcher), ranker_(std::move(parts.ranker)) {}

  KeyId add_key(KeyInfo info) override;
  void remove_key(KeyId key) override;
  void update_latency(KeyId key, std::shared_ptr<const LatencyTable> latency, Time now,
                      Decisions& out) override;
  void set_delay_bound(DelayBound bound) override;
  WorkerId add_worker(Time now, Decisions& out, uint32_t type) override;
  void nominate(const Task& task, Time now, Decisions& out) override;
  bool withdraw(const Task& task, Time now, Decisions& out) override;
  void freed(WorkerId worker, Time now, Decisions& out) override;
  void tick(Time now, Decisions& out) override;
  Time next_wake() const override;
  uint64_t waiting_items(KeyId key) const override;

 private:
  void settle(KeyId key, Time now, Decisions& out);
  void serve_grants(Time now, Decisions& out);
  void explain_drops(size_t from, Time now, Decisions& out) const;

  const MakeBatcher make_batcher_;
  const std::unique_ptr<Ranker> ranker_;
  std::vector<std::unique_ptr<Batcher>> batchers_;  // by key; null once removed
  std::vector<KeyId> free_keys_;                    // removed: the next keys take their ids
  MinTree wakes_;                                   // by key
  DelayBound delay_;
  uint32_t workers_ = 0;
  std::vector<Grant> grants_;  // to be served, oldest first; empty between calls
};

}  // namespace fermata::policy
