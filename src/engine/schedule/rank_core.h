#pragma once

#include <memory>
#include <vector>

#include "engine/schedule/scheduler_links.h"

namespace fermata::engine {

// RankThread of Symphony 4.5: owns workers and the latest offer of each key,
// never a task. Passive: whoever owns the thread calls turn().
class RankCore {
 public:
  // `shards` outlive it; key k belongs to shards[k % shards.size()].
  RankCore(std::unique_ptr<policy::PoolRanker> ranker, RankInbox& inbox,
           std::vector<ShardInbox*> shards)
      : ranker_(std::move(ranker)),
        inbox_(inbox),
        shards_(std::move(shards)),
        granted_(shards_.size()) {}

  // Takes in everything that has come and grants. False: nothing had come.
  bool turn(Time now);
  Time next_wake() const { return ranker_->next_wake(); }

 private:
  void apply_freed(WorkerId worker, Time now);
  void apply_answer(const policy::Answer& answer, Time now);
  void send_grants();
  void show_pool(Time now);

  const std::unique_ptr<policy::PoolRanker> ranker_;
  RankInbox& inbox_;
  const std::vector<ShardInbox*> shards_;
  // By worker: batches known to run. Below zero: an end that came before the
  // answer which started the batch, from another thread; the answer settles it.
  std::vector<int32_t> running_;
  std::vector<policy::Grant> grants_;
  std::vector<std::vector<policy::Grant>> granted_;  // by shard
  Time next_view_;
};

}  // namespace fermata::engine
