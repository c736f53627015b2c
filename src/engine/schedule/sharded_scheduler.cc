#include "engine/schedule/sharded_scheduler.h"

#include <future>

#include "base/check.h"
#include "base/clock.h"
#include "base/status.h"

namespace fermata::engine {

absl::StatusOr<std::unique_ptr<ShardedScheduler>> ShardedScheduler::make(
    std::string_view policy, size_t shards, Decided decided,
    const std::optional<policy::Rules>& rules) {
  FERMATA_CHECK(shards >= 1);
  ASSIGN_OR_RETURN(policy::Parts parts, policy::make_parts(policy, rules));
  return std::unique_ptr<ShardedScheduler>(
      new ShardedScheduler(std::move(parts), shards, std::move(decided)));
}

ShardedScheduler::ShardedScheduler(policy::Parts parts, size_t shards, Decided decided)
    : rules_(parts.rules), decided_(std::move(decided)) {
  std::vector<ShardInbox*> inboxes;
  for (size_t s = 0; s < shards; ++s) {
    shards_.push_back(std::make_unique<Shard>(rank_inbox_, static_cast<uint32_t>(shards)));
    inboxes.push_back(&shards_.back()->inbox);
  }
  rank_ = std::make_unique<RankCore>(std::move(parts.ranker), rank_inbox_, std::move(inboxes));
}

ShardedScheduler::~ShardedScheduler() { stop(); }

void ShardedScheduler::start() {
  FERMATA_CHECK(threads_.empty());
  stopping_ = false;
  threads_.emplace_back([this] { run_rank(); });
  for (size_t s = 0; s < shards_.size(); ++s) threads_.emplace_back([this, s] { run_shard(s); });
}

void ShardedScheduler::stop() {
  stopping_ = true;
  rank_inbox_.parker.unpark();
  for (const auto& shard : shards_) shard->inbox.parker.unpark();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void ShardedScheduler::run_shard(size_t shard) {
  while (!stopping_) {
    if (turn_shard(shard, monotonic_now())) continue;
    shards_[shard]->inbox.parker.park_until(next_wake(shard));
  }
}

void ShardedScheduler::run_rank() {
  while (!stopping_) {
    if (turn_rank(monotonic_now())) continue;
    rank_inbox_.parker.park_until(next_wake_of_rank());
  }
}

bool ShardedScheduler::turn_shard(size_t shard, Time now) {
  Shard& s = *shards_[shard];
  if (!s.core.turn(now, s.decisions)) return false;
  decided_(shard, s.decisions, now);
  return true;
}

void ShardedScheduler::freed(WorkerId worker) {
  rank_inbox_.freed.enqueue(worker);
  rank_inbox_.parker.unpark();
}

void ShardedScheduler::tell_shard(KeyId key, ShardCommand command) {
  ShardInbox& inbox = shards_[key.index() % shards_.size()]->inbox;
  inbox.commands.enqueue(std::move(command));
  inbox.parker.unpark();
}

void ShardedScheduler::tell_rank(RankCommand command) {
  rank_inbox_.commands.enqueue(std::move(command));
  rank_inbox_.parker.unpark();
}

// The ranker knows the key before the first offer can come.
KeyId ShardedScheduler::add_key(policy::KeyInfo info) {
  KeyId key;
  if (!free_keys_.try_dequeue(key)) {
    key = KeyId(static_cast<uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  OfferSlot* slot = &slots_[key.index()];
  auto batcher = std::make_unique<policy::RuleBatcher>(rules_, key, std::move(info), delay_);
  auto known = std::make_shared<std::promise<void>>(),
       ready = std::make_shared<std::promise<void>>();
  tell_rank([key, known](policy::PoolRanker& ranker, Time, auto&) {
    ranker.add_key(key);
    known->set_value();
  });
  if (!threads_.empty()) known->get_future().wait();
  tell_shard(key,
             [batcher = std::move(batcher), slot, ready](ModelShard& shard, Time, auto&) mutable {
               shard.add_key(std::move(batcher), slot);
               ready->set_value();
             });
  if (!threads_.empty()) ready->get_future().wait();
  return key;
}

void ShardedScheduler::remove_key(KeyId key) {
  tell_shard(key, [this, key](ModelShard& shard, Time, auto&) {
    shard.remove_key(key);
    free_keys_.enqueue(key);
  });
}

WorkerId ShardedScheduler::add_worker(uint32_t type) {
  const WorkerId worker(workers_++);
  tell_rank([worker, type](policy::PoolRanker& ranker, Time now, auto& grants) {
    ranker.add_worker(worker, type, policy::kUnlimitedMemory, now, grants);
  });
  return worker;
}

void ShardedScheduler::update_latency(KeyId key, LatencyByType latency) {
  tell_shard(key, [key, latency = std::move(latency)](ModelShard& shard, Time now, auto& out) {
    shard.set_latency(key, latency, now, out);
  });
}

void ShardedScheduler::set_rules(const policy::Rules& rules) {
  rules_ = rules;
  tell_rank([rules](policy::PoolRanker& ranker, Time now, auto& grants) {
    ranker.set_rules(rules, now, grants);
  });
  for (const auto& shard : shards_) {
    shard->inbox.commands.enqueue(
        [rules](ModelShard& core, Time now, auto& out) { core.set_rules(rules, now, out); });
    shard->inbox.parker.unpark();
  }
}

void ShardedScheduler::set_delay_bound(policy::DelayBound bound) {
  delay_ = bound;
  tell_rank([bound](policy::PoolRanker& ranker, Time, auto&) { ranker.set_delay_bound(bound); });
  for (const auto& shard : shards_) {
    shard->inbox.commands.enqueue(
        [bound](ModelShard& core, Time, auto&) { core.set_delay_bound(bound); });
    shard->inbox.parker.unpark();
  }
}

}  // namespace fermata::engine
