#pragma once

#include <memory>
#include <vector>

#include "policy/batch/min_tree.h"
#include "policy/parts.h"
#include "policy/scheduler.h"
#include "policy/shared_batcher.h"

namespace fermata::policy {

// Batchers, of a model or of all composite services of a kind, and one ranker in one thread: passes
// offers, grants and answers between them until they are quiet. Adds nothing to what they decide,
// so the same batchers and ranker decide the same when messages carry them.
class PoolScheduler final : public Scheduler {
 public:
  explicit PoolScheduler(Parts parts, const ServiceSettings& settings = {})
      : rules_(parts.rules),
        ranker_(std::move(parts.ranker)),
        view_(ranker_->view()),
        settings_(settings) {}

  bool serves(Kind) const override { return true; }
  KeyId add_service(const ServiceInfo& info) override;
  void learned(const Task& task, const Estimate& estimate, Time now, Decisions& out) override;

  KeyId add_key(KeyInfo info) override;
  void remove_key(KeyId key) override;
  void update_latency(KeyId key, LatencyByType latency, Time now, Decisions& out) override;
  void set_delay_bound(DelayBound bound) override;
  WorkerId add_worker(Time now, Decisions& out, uint32_t type, int64_t memory_bytes) override;
  bool workers_may_leave() const override { return true; }
  void planned(const Plan& plan, Time now, Decisions& out) override;
  bool set_rules(const Rules& rules, Time now, Decisions& out) override;
  void nominate(const Task& task, Time now, Decisions& out) override;
  bool withdraw(const Task& task, Time now, Decisions& out) override;
  void ended(const BatchEnd& batch, Time now, Decisions& out) override;
  void tick(Time now, Decisions& out) override;
  Time next_wake() const override;
  uint64_t waiting_items(KeyId key) const override;
  std::vector<Problem> last_problems() const override;

 private:
  // The batcher of every service of a kind, under a key of its own.
  struct OfKind {
    Kind kind;
    KeyId slot;
    SharedBatcher* batcher = nullptr;
  };
  struct Explaining;
  KeyId new_key();
  const OfKind& of_kind(Kind kind);
  const OfKind* shared_of(KeyId key) const;  // null: of a single model
  void settle(KeyId key, Time now, Decisions& out);
  void complete(Batch& batch, KeyId slot, Time now, Decisions& out);
  void serve_grants(Time now, Decisions& out);

  Rules rules_;
  const std::unique_ptr<PoolRanker> ranker_;
  PoolView& view_;
  const ServiceSettings settings_;
  std::vector<std::unique_ptr<Batcher>> batchers_;  // by key; null once removed
  std::vector<KeyId> slot_;                         // by key: whose batcher it has
  std::vector<OfKind> shared_;                      // that have been needed
  MinTree wakes_;                                   // by key
  DelayBound delay_;
  std::vector<KeyId> joined_;  // scratch of complete()
  std::vector<Grant> grants_;  // to be served, oldest first; empty between calls
};

}  // namespace fermata::policy
