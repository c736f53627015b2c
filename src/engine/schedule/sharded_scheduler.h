#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/schedule/model_shard.h"
#include "engine/schedule/rank_core.h"
#include "policy/parts.h"

namespace fermata::engine {

// The scheduler on several cores (Symphony 4.5): shards of keys, each with its
// batchers on a model thread of its own, and one rank thread with the ranker.
// The policy's code is that of the single-threaded Scheduler; only offers,
// grants, answers and frees cross, without a lock.
//
// Every nominated task ends exactly once: in one batch, dropped, or withdrawn.
class ShardedScheduler {
 public:
  // What a turn of a shard decided. Called on the thread that turns the shard;
  // may move the batches out.
  using Decided = std::function<void(size_t shard, ShardDecisions& decisions, Time now)>;

  // 1 <= shards. An unknown policy is INVALID_ARGUMENT.
  static absl::StatusOr<std::unique_ptr<ShardedScheduler>> make(
      std::string_view policy, size_t shards, Decided decided,
      const std::optional<policy::Rules>& rules = {});
  ~ShardedScheduler();  // stops

  // Starts shards() model threads and the rank thread on the monotonic clock;
  // they sleep when there is nothing to do. Without it the caller turns.
  void start();
  // Waits for the threads. What waits stays undecided.
  void stop();

  // Rare, and from one thread at a time. Only add_key() blocks, until the
  // threads know the key; without start() it takes effect with the next turns, and
  // a caller that turns on several threads is through with adding before.
  KeyId add_key(policy::KeyInfo info);
  void remove_key(KeyId key);  // nothing of it may wait; its id comes again
  WorkerId add_worker(uint32_t type = 0);
  void update_latency(KeyId key, LatencyByType latency);
  void set_delay_bound(policy::DelayBound bound);
  void set_rules(const policy::Rules& rules);

  // The request path: one thread's way in, of any number of threads. Never blocks. Goes before the
  // scheduler.
  class Caller {
   public:
    explicit Caller(ShardedScheduler& scheduler) : scheduler_(scheduler) {
      for (const auto& shard : scheduler.shards_) places_.emplace_back(shard->inbox.messages);
    }
    void nominate(const policy::Task& task) { post({task, false}); }
    // Comes back among a turn's `withdrawn`, unless it is bound or dropped first: a withdrawal that
    // crosses a grant loses. After the task's nomination, by the same caller.
    void withdraw(const policy::Task& task) { post({task, true}); }

   private:
    void post(const ShardInbox::Message& message) {
      const size_t s = message.task.key.index() % places_.size();
      ShardInbox& inbox = scheduler_.shards_[s]->inbox;
      inbox.messages.enqueue(places_[s], message);
      inbox.parker.unpark();
    }

    ShardedScheduler& scheduler_;
    std::vector<moodycamel::ProducerToken> places_;  // in the inboxes, by shard
  };
  // The worker has really ended its batch.
  void freed(WorkerId worker);

  // For a caller that owns the threads: each shard, and the rank, from one
  // thread at a time. False: there was nothing to do.
  bool turn_shard(size_t shard, Time now);
  bool turn_rank(Time now) { return rank_->turn(now); }
  Time next_wake(size_t shard) const { return shards_[shard]->core.next_wake(); }
  Time next_wake_of_rank() const { return rank_->next_wake(); }
  size_t shards() const { return shards_.size(); }

 private:
  struct Shard {
    Shard(RankInbox& rank, uint32_t shards) : core(inbox, rank, shards) {}
    ShardInbox inbox;
    ModelShard core;
    ShardDecisions decisions;
  };

  ShardedScheduler(policy::Parts parts, size_t shards, Decided decided);
  void tell_shard(KeyId key, ShardCommand command);
  void tell_rank(RankCommand command);
  void run_shard(size_t shard);
  void run_rank();

  policy::Rules rules_;
  const Decided decided_;
  RankInbox rank_inbox_;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::unique_ptr<RankCore> rank_;
  std::deque<OfferSlot> slots_;  // by key; addresses stay
  Inbox<KeyId> free_keys_;       // that their shards have removed
  policy::DelayBound delay_;
  uint32_t workers_ = 0;
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> threads_;
};

}  // namespace fermata::engine
