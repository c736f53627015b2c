#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "engine/schedule/scheduler_links.h"
#include "policy/batch/min_tree.h"
#include "policy/batch/rule_batcher.h"

namespace fermata::engine {

// What one turn of a shard decided; valid until the next turn.
struct ShardDecisions {
  policy::Decisions decisions;
  std::vector<policy::Task> withdrawn;  // of those asked for: what was still waiting
};

// ModelThread of Symphony 4.5: the batchers of some keys. Passive: whoever owns
// the thread calls turn(). Offers of many messages become one, the latest.
class ModelShard {
 public:
  // One of `shards` shards; key k belongs to shard k % shards as its k / shards-th.
  ModelShard(ShardInbox& inbox, RankInbox& rank, uint32_t shards)
      : inbox_(inbox), rank_(rank), shards_(shards) {}

  void add_key(std::unique_ptr<policy::RuleBatcher> batcher, OfferSlot* slot);
  void remove_key(KeyId key);  // nothing of it may wait
  void set_latency(KeyId key, LatencyByType latency, Time now, policy::Decisions& out);
  void set_delay_bound(policy::DelayBound bound);
  void set_rules(const policy::Rules& rules, Time now, policy::Decisions& out);

  // Takes in at most kMessages nominations, serves grants and wakes batchers.
  // False: there was nothing to do. Answers are on their way to the ranker before
  // it returns, so a batch that ends at once cannot overtake its answer by much.
  bool turn(Time now, ShardDecisions& out);
  Time next_wake() const { return wakes_.top(); }
  uint64_t waiting_items(KeyId key) const { return keys_[index(key)].batcher->waiting_items(); }

 private:
  static constexpr size_t kMessages = 512;
  struct Key {
    std::unique_ptr<policy::RuleBatcher> batcher;  // null once removed
    OfferSlot* slot = nullptr;
    bool changed = false;    // since its offer was published
    bool undecided = false;  // on what has come and gone
  };

  size_t index(KeyId key) const { return key.index() / shards_; }
  bool run_commands(Time now, policy::Decisions& out);
  bool serve_grants(Time now, policy::Decisions& out);
  bool take_messages(Time now, ShardDecisions& out);
  void decide(size_t index, Time now, policy::Decisions& out);
  bool wake_batchers(Time now, policy::Decisions& out);
  void changed(size_t index) {
    if (!std::exchange(keys_[index].changed, true)) changed_.push_back(index);
  }
  void woken(size_t index);
  void publish();
  void explain_drops(Time now, policy::Decisions& out) const;

  ShardInbox& inbox_;
  RankInbox& rank_;
  const uint32_t shards_;
  std::vector<Key> keys_;
  policy::MinTree wakes_;
  std::vector<size_t> changed_;
  std::vector<policy::Answer> answers_;
  std::vector<OfferSlot*> fresh_;
};

}  // namespace fermata::engine
