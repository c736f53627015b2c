#include "engine/schedule/sharded_scheduler.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <set>

#include "base/clock.h"
#include "base/random.h"
#include "policy/any_rules.h"

namespace fermata::engine {
namespace {

using policy::Task;

std::shared_ptr<const LatencyTable> latency(double alpha_ms, double beta_ms) {
  return *LatencyTable::make(LinearLatency{alpha_ms, beta_ms}, 32);
}

struct Offered {
  int workers = 2;
  double gap_ms = 0.6;  // between arrivals, in the mean
};
constexpr Offered kFull, kIdle = {.workers = 8, .gap_ms = 2};

// One timeline for the single-threaded scheduler and for the shards: arrivals
// from a seed, batches that end when expected.
class Timeline {
 public:
  static constexpr uint64_t kJobs = 400;
  struct Ended {
    Time at;
    WorkerId worker;  // none: dropped
    auto operator<=>(const Ended&) const = default;
  };
  using Endings = std::map<uint64_t, Ended>;  // by job

  Timeline(uint64_t seed, double gap_ms) : random_(seed), gap_ms_(gap_ms) {}

  template <class Nominate, class Freed, class Tick, class NextWake>
  void run(Nominate nominate, Freed freed, Tick tick, NextWake next_wake) {
    Time arrival = Time::from_nanos(1);
    for (uint64_t job = 0;;) {
      const Time ended = running_.empty() ? Time::infinite() : running_.begin()->first;
      const Time wake = next_wake();
      const Time now = std::min({job < kJobs ? arrival : Time::infinite(), ended, wake});
      if (now.is_infinite()) break;
      if (ended == now) {
        const WorkerId worker = running_.begin()->second;
        running_.erase(running_.begin());
        freed(worker, now);
      } else if (wake == now) {
        tick(now);
      } else {
        const KeyId key(static_cast<uint32_t>(random_.below(3)));
        nominate(Task{JobId(job++), key, now, now + Duration::millis(25)}, now);
        arrival = now + Duration::from_millis(random_.exponential(gap_ms_));
      }
    }
  }

  void account(policy::Decisions& d, Time now) {
    for (const policy::Batch& batch : d.bound) {
      running_.insert({batch.finish, batch.worker});
      for (const Task& task : batch.tasks) end(task, {batch.start, batch.worker});
    }
    for (const policy::Dropped& dropped : d.dropped) end(dropped.task, {now, WorkerId::none()});
    d.clear();
  }

  const Endings& endings() const { return endings_; }

 private:
  void end(const Task& task, Ended ended) {
    EXPECT_TRUE(endings_.insert({task.job.value(), ended}).second) << "ended twice";
  }
  Random random_;
  const double gap_ms_;
  std::set<std::pair<Time, WorkerId>> running_;
  Endings endings_;
};

Timeline::Endings single_threaded(std::string_view policy, uint64_t seed, const Offered& load) {
  Timeline line(seed, load.gap_ms);
  auto scheduler = *policy::make_scheduler(policy);
  policy::Decisions out;
  for (int k = 0; k < 3; ++k) scheduler->add_key({"k", latency(1, 5), Duration::millis(25)});
  for (int w = 0; w < load.workers; ++w) scheduler->add_worker(Time(), out);
  line.run(
      [&](const Task& t, Time now) { scheduler->nominate(t, now, out), line.account(out, now); },
      [&](WorkerId w, Time now) { scheduler->ended(w, now, out), line.account(out, now); },
      [&](Time now) { scheduler->tick(now, out), line.account(out, now); },
      [&] { return scheduler->next_wake(); });
  return line.endings();
}

// With `rules` they change with every eighth request.
Timeline::Endings sharded(std::string_view policy, uint64_t seed, size_t shards,
                          const Offered& load = kFull, Random* rules = nullptr) {
  Timeline line(seed, load.gap_ms);
  auto scheduler = *ShardedScheduler::make(
      policy, shards, [&](size_t, ShardDecisions& d, Time now) { line.account(d.decisions, now); });
  for (int k = 0; k < 3; ++k) scheduler->add_key({"k", latency(1, 5), Duration::millis(25)});
  for (int w = 0; w < load.workers; ++w) scheduler->add_worker();
  const auto settle = [&](Time now) {
    for (bool busy = true; busy;) {
      busy = false;
      for (size_t s = 0; s < shards; ++s) busy |= scheduler->turn_shard(s, now);
      busy |= scheduler->turn_rank(now);
    }
  };
  settle(Time());
  ShardedScheduler::Caller caller(*scheduler);
  line.run(
      [&](const Task& t, Time now) {
        caller.nominate(t);
        if (rules != nullptr && t.job.value() % 8 == 0) {
          scheduler->set_rules(policy::any_rules(*rules));
        }
        settle(now);
      },
      [&](WorkerId w, Time now) { scheduler->freed(w), settle(now); }, settle,
      [&] {
        Time wake = scheduler->next_wake_of_rank();
        for (size_t s = 0; s < shards; ++s) wake = std::min(wake, scheduler->next_wake(s));
        return wake;
      });
  return line.endings();
}

TEST(ShardedScheduler, DecidesWhatTheSingleThreadedOneDecides) {
  for (const std::string_view policy : policy::scheduler_names()) {
    if (!policy::make_parts(policy).ok()) continue;
    for (const Offered& load : {kFull, kIdle}) {
      for (uint64_t seed = 1; seed <= 5; ++seed) {
        const Timeline::Endings expected = single_threaded(policy, seed, load);
        ASSERT_EQ(expected.size(), Timeline::kJobs) << policy;
        for (const size_t shards : {1, 2, 3}) {
          EXPECT_EQ(sharded(policy, seed, shards, load), expected)
              << policy << " on " << load.workers << " workers, " << seed;
        }
      }
    }
  }
}

TEST(ShardedScheduler, EveryTaskEndsOnceWhileRulesChange) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    for (const size_t shards : {1, 3}) {
      Random rules(seed);
      EXPECT_EQ(sharded("fermata", seed, shards, kFull, &rules).size(), Timeline::kJobs) << seed;
    }
  }
}

TEST(ShardedScheduler, AWithdrawalMayCrossTheRemovalOfItsKey) {
  size_t bound = 0, withdrawn = 0;
  auto scheduler = *ShardedScheduler::make("eager", 1, [&](size_t, ShardDecisions& d, Time) {
    bound += d.decisions.bound.size();
    withdrawn += d.withdrawn.size();
  });
  const auto settle = [&] {
    while (scheduler->turn_shard(0, Time()) || scheduler->turn_rank(Time())) {
    }
  };
  const KeyId key = scheduler->add_key({"k", latency(1, 5), Duration::millis(25)});
  scheduler->add_worker();
  const Task task{JobId(1), key, Time(), Time() + Duration::millis(25), 1};
  ShardedScheduler::Caller caller(*scheduler);
  caller.nominate(task);
  settle();
  EXPECT_EQ(bound, 1u);
  caller.withdraw(task);
  scheduler->remove_key(key);
  settle();
  EXPECT_EQ(withdrawn, 0u);
}

TEST(ShardedScheduler, UnknownPoliciesAreRefused) {
  EXPECT_FALSE(ShardedScheduler::make("fifo", 1, {}).ok());
}

// Counts every ending of every job under real threads; batches end at once.
class Storm {
 public:
  static constexpr uint64_t kJobs = 6'000, kProducers = 3;

  void run(size_t shards) {
    auto made = ShardedScheduler::make("fermata", shards,
                                       [this](size_t, ShardDecisions& d, Time) { account(d); });
    scheduler_ = made->get();
    scheduler_->add_key({"early", latency(0.01, 0.05), Duration::millis(20)});
    for (int w = 0; w < 3; ++w) scheduler_->add_worker();
    scheduler_->start();
    for (int k = 0; k < 5; ++k) scheduler_->add_key({"late", latency(0.01, 0.05)});
    scheduler_->add_worker();
    std::vector<std::thread> producers;
    for (uint64_t p = 0; p < kProducers; ++p) producers.emplace_back([this, p] { produce(p); });
    for (std::thread& producer : producers) producer.join();
    {
      std::unique_lock lock(mutex_);
      all_ended_.wait(lock, [this] { return ended_ == kJobs; });
    }
    scheduler_->stop();
    for (uint64_t job = 0; job < kJobs; ++job) EXPECT_EQ(endings_[job], 1u) << job;
  }

 private:
  void produce(uint64_t producer) {
    Random random(producer);
    ShardedScheduler::Caller caller(*scheduler_);
    for (uint64_t job = producer; job < kJobs; job += kProducers) {
      const Time now = monotonic_now();
      Task task{JobId(job), KeyId(static_cast<uint32_t>(random.below(6))), now, Time::infinite(),
                static_cast<uint32_t>(1 + random.below(3))};
      if (random.below(8) > 0) {
        task.deadline = now + Duration::micros(static_cast<int64_t>(random.below(20'000)));
      }
      caller.nominate(task);
      if (random.below(4) == 0) caller.withdraw(task);
    }
  }

  void account(const ShardDecisions& d) {
    std::lock_guard lock(mutex_);
    for (const policy::Batch& batch : d.decisions.bound) {
      for (const Task& task : batch.tasks) end(task);
      scheduler_->freed(batch.worker);
    }
    for (const policy::Dropped& dropped : d.decisions.dropped) end(dropped.task);
    for (const Task& task : d.withdrawn) end(task);
    if (ended_ == kJobs) all_ended_.notify_all();
  }
  void end(const Task& task) {
    ++endings_[task.job.value()];
    ++ended_;
  }

  ShardedScheduler* scheduler_ = nullptr;
  std::mutex mutex_;
  std::condition_variable all_ended_;
  std::vector<uint32_t> endings_ = std::vector<uint32_t>(kJobs);
  uint64_t ended_ = 0;
};

TEST(ShardedScheduler, EveryTaskEndsOnceUnderConcurrentLoad) {
  for (const size_t shards : {1, 3}) Storm().run(shards);
}

// Shapes and models come and go: their ids come again, and work.
TEST(ShardedScheduler, KeysThatHaveGoneLeaveNothingBehind) {
  std::vector<policy::Batch> bound;
  auto made = ShardedScheduler::make("fermata", 2, [&](size_t, ShardDecisions& d, Time) {
    for (const policy::Batch& b : d.decisions.bound) bound.push_back(b);
  });
  ShardedScheduler& scheduler = **made;
  ShardedScheduler::Caller caller(scheduler);
  Time now = Time::from_nanos(1);
  const auto settle = [&] {
    for (int turns = 0; turns < 10; ++turns) {
      now = now + Duration::micros(1);
      for (size_t shard = 0; shard < 2; ++shard) (void)scheduler.turn_shard(shard, now);
      (void)scheduler.turn_rank(now);
    }
  };
  (void)scheduler.add_worker();
  for (uint64_t job = 0; job < 100; ++job) {
    const KeyId key = scheduler.add_key({"m", latency(1, 5), Duration::millis(25)});
    EXPECT_LT(key.value(), 1u);
    settle();
    caller.nominate(Task{JobId(job), key, now, now + Duration::millis(25)});
    for (int i = 0; i < 40; ++i) {  // until it wants to start
      settle();
      now = now + Duration::millis(1);
    }
    ASSERT_EQ(bound.size(), job + 1);
    scheduler.freed(bound.back().worker);
    settle();
    scheduler.remove_key(key);
    settle();
  }
}

}  // namespace
}  // namespace fermata::engine
