#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/schedule/sharded_scheduler.h"
#include "policy/scheduler.h"

namespace fermata::engine {

// The sharded scheduler where the driver expects the single-threaded one: calls
// pass work on to the model threads, and tick() hands over what they decided
// meanwhile. All calls from the driver's thread, except where said.
//
// withdraw() is always false, as if it had crossed a grant: a task that was
// still waiting ends soon after as one that is dropped.
class ThreadedScheduler final : public policy::Scheduler {
 public:
  // 1 <= threads. A policy that is unknown, or not made of batchers and a
  // ranker, is INVALID_ARGUMENT.
  static absl::StatusOr<std::unique_ptr<ThreadedScheduler>> make(
      std::string_view policy, size_t threads,
      const std::optional<policy::Rules>& rules = std::nullopt);
  // Starts the threads. `decided` is called from them when next_wake() has come
  // nearer; it must not block. Before any other call but add_worker() and
  // set_delay_bound().
  void start(std::function<void()> decided);

  KeyId add_key(policy::KeyInfo info) override;
  void remove_key(KeyId key) override { sharded_->remove_key(key); }
  void update_latency(KeyId key, LatencyByType latency, Time now, policy::Decisions& out) override;
  void set_delay_bound(policy::DelayBound bound) override { sharded_->set_delay_bound(bound); }
  bool set_rules(const policy::Rules& rules, Time, policy::Decisions&) override {
    sharded_->set_rules(rules);
    return true;
  }
  WorkerId add_worker(Time now, policy::Decisions& out, uint32_t type,
                      int64_t memory_bytes) override;

  void nominate(const policy::Task& task, Time now, policy::Decisions& out) override;
  bool withdraw(const policy::Task& task, Time now, policy::Decisions& out) override;
  void ended(const policy::BatchEnd& batch, Time now, policy::Decisions& out) override;
  void tick(Time now, policy::Decisions& out) override;
  // When the oldest decision that tick() has not handed over was made.
  Time next_wake() const override { return Time::from_nanos(decided_at_.load()); }

  // Decisions not yet handed over count as waiting.
  uint64_t waiting_items(KeyId key) const override { return waiting_[key.index()]; }

 private:
  ThreadedScheduler() = default;
  void decided(ShardDecisions& decisions, Time now);  // on a model thread

  Inbox<policy::Batch> bound_;
  Inbox<policy::Dropped> dropped_;
  std::atomic<int64_t> decided_at_{Time::infinite().nanos()};
  std::function<void()> wake_;
  std::vector<uint64_t> waiting_;              // items, by key
  std::unique_ptr<ShardedScheduler> sharded_;  // its threads use the above
  std::optional<ShardedScheduler::Caller> caller_;
};

}  // namespace fermata::engine
