#include <queue>

#include "base/check.h"
#include "base/random.h"
#include "engine/schedule/sharded_scheduler.h"
#include "scaling/cases.h"

namespace fermata::scaling {
namespace {

using namespace policy;

// The scheduler on several cores, turned by one thread: two shards, a key on each, one worker.
class Shards {
 public:
  Shards() {
    const auto latency = LatencyTable::make(LinearLatency{1, 4}, 16);
    for (KeyId& key : keys_) key = scheduler_->add_key({.name = "m", .latency = *latency});
    scheduler_->add_worker();
    settle();
  }

  void arrive(size_t n, double slo_ms) {
    Random random(7);
    for (size_t i = 0; i < n; ++i) {
      const Duration budget = Duration::from_millis(slo_ms * (0.5 + random.uniform()));
      tasks_.push_back({JobId(i + 1), keys_[i % 2], now_, now_ + budget});
      caller_.nominate(tasks_.back());
    }
    settle();
  }
  void withdraw_all() {
    Random random(11);
    for (size_t i = tasks_.size(); i > 1; --i) std::swap(tasks_[i - 1], tasks_[random.below(i)]);
    for (const Task& task : tasks_) {
      caller_.withdraw(task);
      settle();
    }
  }
  void be_late(double ms) {
    now_ = now_ + Duration::from_millis(ms);
    settle();
  }
  void serve_all() {
    for (settle(); !running_.empty(); settle()) {
      const auto [end, worker] = running_.top();
      running_.pop();
      now_ = std::max(now_, end);
      scheduler_->freed(worker);
    }
  }

 private:
  using End = std::pair<Time, WorkerId>;
  void settle() {
    for (bool busy = true; busy;) {
      busy = scheduler_->turn_rank(now_);
      for (size_t s = 0; s < keys_.size(); ++s) busy |= scheduler_->turn_shard(s, now_);
    }
  }
  void decided(const Decisions& decisions) {
    for (const Batch& batch : decisions.bound) {
      running_.push({std::max(batch.finish, now_), batch.worker});
    }
  }

  Time now_ = Time::from_nanos(1'000'000);
  std::array<KeyId, 2> keys_;
  std::vector<Task> tasks_;
  std::priority_queue<End, std::vector<End>, std::greater<End>> running_;
  const std::unique_ptr<engine::ShardedScheduler> scheduler_ = *engine::ShardedScheduler::make(
      "fermata", 2,
      [this](size_t, engine::ShardDecisions& turn, Time) { decided(turn.decisions); });
  engine::ShardedScheduler::Caller caller_{*scheduler_};
};

}  // namespace

void add_shard_cases(Cases& cases) {
  constexpr double kRelaxed = 1e7, kTight = 1e3;
  const auto add = [&cases](const char* name, double slo_ms, void (*work)(Shards&)) {
    cases.push_back({name, 4'000, [slo_ms, work](size_t n) {
                       Shards shards;
                       shards.arrive(n, slo_ms);
                       measured([&] { work(shards); });
                     }});
  };
  cases.push_back({"shards_nominate", 4'000, [](size_t n) {
                     Shards shards;
                     measured([&] { shards.arrive(n, kRelaxed); });
                   }});
  add("shards_withdraw", kRelaxed, [](Shards& shards) { shards.withdraw_all(); });
  add("shards_drop", kTight, [](Shards& shards) { shards.be_late(1e4); });
  add("shards_freed", kRelaxed, [](Shards& shards) { shards.serve_all(); });
}

}  // namespace fermata::scaling
