#include "cli/scheduler_load.h"

#include <time.h>

#include <cmath>
#include <queue>
#include <thread>

#include "base/clock.h"
#include "base/random.h"
#include "base/status.h"
#include "cli/instruction_counter.h"
#include "engine/schedule/sharded_scheduler.h"

namespace fermata::cli {
namespace {

constexpr size_t kBurst = 256;  // arrivals a turn at most

Duration cpu_time() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return Duration::seconds(t.tv_sec) + Duration::nanos(t.tv_nsec);
}

// The load of one shard: arrivals before its turn, ends of batches after it.
class ShardLoad {
 public:
  ShardLoad(const SchedulerLoad& load, engine::ShardedScheduler& scheduler, size_t shard)
      : scheduler_(scheduler),
        caller_(scheduler),
        shard_(shard),
        models_((load.models - shard + load.threads - 1) / load.threads),
        shards_(load.threads),
        slo_(load.slo),
        gap_nanos_(1e9 * load.threads / load.rate_rps),
        random_(load.seed, shard) {
    arrivals_.reserve(kBurst);
  }

  void begin(Time now) { next_arrival_ = now + gap(); }

  void arrive(Time now) {
    arrivals_.clear();
    for (; next_arrival_ <= now && arrivals_.size() < kBurst;
         next_arrival_ = next_arrival_ + gap()) {
      const uint64_t key = shard_ + shards_ * random_.below(models_);
      caller_.nominate({JobId(next_job_++ * shards_ + shard_), KeyId(static_cast<uint32_t>(key)),
                        next_arrival_, next_arrival_ + slo_});
      arrivals_.push_back(next_arrival_);
    }
    while (!running_.empty() && running_.top().first <= now) {
      scheduler_.freed(running_.top().second);
      running_.pop();
    }
  }

  void account(engine::ShardDecisions& decided) {
    for (const policy::Batch& batch : decided.decisions.bound) {
      running_.push({batch.finish, batch.worker});
      for (const policy::Task& task : batch.tasks) {
        ++(batch.finish <= task.deadline ? result_.on_time : result_.late);
      }
    }
    result_.batches += decided.decisions.bound.size();
    result_.dropped += decided.decisions.dropped.size();
  }

  void taken_in(Time now) {
    for (Time arrival : arrivals_) result_.lag.record(now - arrival);
    result_.offered += arrivals_.size();
    ++result_.turns;
  }

  const SchedulerLoadResult& result() const { return result_; }

 private:
  using End = std::pair<Time, WorkerId>;
  Duration gap() { return Duration::nanos(static_cast<int64_t>(random_.exponential(gap_nanos_))); }

  engine::ShardedScheduler& scheduler_;
  engine::ShardedScheduler::Caller caller_;
  const size_t shard_;
  const uint64_t models_, shards_;
  const Duration slo_;
  const double gap_nanos_;
  Random random_;
  Time next_arrival_;
  uint64_t next_job_ = 0;
  std::vector<Time> arrivals_;
  std::priority_queue<End, std::vector<End>, std::greater<End>> running_;
  SchedulerLoadResult result_;
};

class LoadRun {
 public:
  LoadRun(const SchedulerLoad& load, std::unique_ptr<engine::ShardedScheduler>& scheduler,
          std::vector<ShardLoad>& shards)
      : load_(load), scheduler_(*scheduler), shards_(shards) {}

  void real_time() {
    const Time start = monotonic_now(), end = start + load_.duration;
    for (ShardLoad& shard : shards_) shard.begin(start);
    std::vector<std::thread> threads;
    for (size_t s = 1; s < shards_.size(); ++s) threads.emplace_back([=, this] { spin(s, end); });
    if (shards_.size() > 1) {
      threads.emplace_back([=, this] {
        for (Time now; (now = monotonic_now()) < end;) scheduler_.turn_rank(now);
      });
    }
    spin(0, end);
    for (std::thread& thread : threads) thread.join();
  }

  void virtual_time() {
    const Time start = Time::from_nanos(1), end = start + load_.duration;
    for (ShardLoad& shard : shards_) shard.begin(start);
    for (Time now = start; now < end; now = now + load_.virtual_turn) {
      for (size_t s = 0; s < shards_.size(); ++s) turn(s, now), shards_[s].taken_in(now);
      scheduler_.turn_rank(now);
    }
  }

 private:
  void turn(size_t s, Time now) {
    shards_[s].arrive(now);
    scheduler_.turn_shard(s, now);
  }

  void spin(size_t s, Time end) {
    for (Time now; (now = monotonic_now()) < end;) {
      turn(s, now);
      if (shards_.size() == 1) scheduler_.turn_rank(now);
      shards_[s].taken_in(monotonic_now());
    }
  }

  const SchedulerLoad& load_;
  engine::ShardedScheduler& scheduler_;
  std::vector<ShardLoad>& shards_;
};

}  // namespace

uint32_t SchedulerLoad::workers_used() const {
  if (workers > 0) return workers;
  return static_cast<uint32_t>(std::max(1.0, std::ceil(rate_rps / kRatePerWorker)));
}

double SchedulerLoadResult::bad_rate() const {
  const uint64_t ended = on_time + late + dropped;
  return ended == 0 ? 0 : static_cast<double>(late + dropped) / static_cast<double>(ended);
}

double SchedulerLoadResult::mean_batch() const {
  return batches == 0 ? 0 : static_cast<double>(on_time + late) / static_cast<double>(batches);
}

void SchedulerLoadResult::merge(const SchedulerLoadResult& other) {
  offered += other.offered;
  on_time += other.on_time;
  late += other.late;
  dropped += other.dropped;
  batches += other.batches;
  turns += other.turns;
  lag.merge(other.lag);
}

absl::StatusOr<SchedulerLoadResult> run_scheduler_load(const SchedulerLoad& load) {
  if (load.models < load.threads) {
    return invalid("--models {}, expected at least one for each of {} threads", load.models,
                   load.threads);
  }
  std::unique_ptr<engine::ShardedScheduler> scheduler;
  std::vector<ShardLoad> shards;  // which call it, and go before
  ASSIGN_OR_RETURN(scheduler,
                   engine::ShardedScheduler::make(
                       load.policy, load.threads,
                       [&](size_t s, engine::ShardDecisions& d, Time) { shards[s].account(d); }));
  ASSIGN_OR_RETURN(const auto latency, LatencyTable::make(load.latency, 256));
  for (uint32_t m = 0; m < load.models; ++m) {
    scheduler->add_key({fmt::format("model{}", m), latency, load.slo});
  }
  for (uint32_t w = 0; w < load.workers_used(); ++w) scheduler->add_worker();
  for (size_t s = 0; s < load.threads; ++s) shards.emplace_back(load, *scheduler, s);
  LoadRun run(load, scheduler, shards);
  const InstructionCounter instructions;
  const Time start = monotonic_now();
  const Duration cpu = cpu_time();
  load.virtual_turn > Duration() ? run.virtual_time() : run.real_time();
  SchedulerLoadResult result;
  for (const ShardLoad& shard : shards) result.merge(shard.result());
  result.waiting = result.offered - result.on_time - result.late - result.dropped;
  result.wall = monotonic_now() - start;
  result.cpu = cpu_time() - cpu;
  result.instructions = instructions.count();
  return result;
}

bool sustained(const SchedulerLoad& load, const SchedulerLoadResult& result) {
  return result.handled_rps() >= 0.98 * load.rate_rps && result.bad_rate() <= 0.01 &&
         result.lag.quantile(0.5) < Duration::micros(50);
}

absl::StatusOr<SustainedRate> find_sustained_rate(
    SchedulerLoad load, const std::function<void(const SchedulerLoad&)>& tried) {
  SustainedRate best;
  double low = 0, high = 0;
  for (load.rate_rps = 250'000; high == 0 || high > 1.03 * low;) {
    tried(load);
    ASSIGN_OR_RETURN(SchedulerLoadResult result, run_scheduler_load(load));
    if (sustained(load, result)) {
      low = load.rate_rps;
      best = {low, std::move(result)};
    } else {
      high = load.rate_rps;
    }
    load.rate_rps = high == 0 ? 1.6 * low : std::max(low, high / 8) * 0.5 + high * 0.5;
    if (high > 0 && high < 10'000) break;
  }
  return best;
}

}  // namespace fermata::cli
