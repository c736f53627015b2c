#include "simulate/driver.h"

#include <algorithm>
#include <array>
#include <memory>

#include "base/check.h"
#include "base/status.h"
#include "policy/min_tree.h"
#include "policy/scheduler.h"

namespace fermata::simulate {
namespace {

constexpr uint64_t kProgressEvery = 1 << 16;  // events

class Run {
 public:
  Run(const Scenario& scenario, const RunOptions& options,
      std::unique_ptr<policy::Scheduler> scheduler);

  Result go();

 private:
  struct Source {
    Arrivals arrivals;
    Duration slo;
  };
  // When each bound batch ends; the second is one that was bound ahead.
  struct WorkerState {
    std::array<Time, 2> ends;
    uint32_t bound = 0;
  };

  void add_models();
  void add_workers();
  void step();
  void arrive(Time now);
  void end_batch(Time now);
  void act(Time now);
  void start(const policy::Batch& batch, Time now);
  void drop(const policy::Task& task, Time now);
  bool measured(Time arrival) const { return arrival >= from_ && arrival < to_; }
  void mix(uint64_t value) { result_.hash = (result_.hash ^ value) * 0x100000001b3; }

  const Scenario& scenario_;
  const RunOptions& options_;
  std::unique_ptr<policy::Scheduler> scheduler_;
  const Time from_ = Time() + scenario_.warmup;
  const Time to_ = from_ + scenario_.duration;
  std::vector<Source> sources_;   // by key
  policy::MinTree next_arrival_;  // by key
  std::vector<WorkerState> workers_;
  policy::MinTree next_end_;  // by worker
  policy::Decisions decisions_;
  uint64_t jobs_ = 0;
  Result result_;
};

Run::Run(const Scenario& scenario, const RunOptions& options,
         std::unique_ptr<policy::Scheduler> scheduler)
    : scenario_(scenario), options_(options), scheduler_(std::move(scheduler)) {
  result_.duration = scenario.duration;
  result_.workers = scenario.worker_count();
  scheduler_->set_delay_bound(scenario.network);
  add_models();
  add_workers();
}

// The slowest type's time of each batch size.
std::shared_ptr<const LatencyTable> slowest(
    const std::vector<std::shared_ptr<const LatencyTable>>& tables) {
  if (tables.size() == 1) return tables[0];
  uint32_t max_batch = tables[0]->max_batch();
  for (const auto& t : tables) max_batch = std::min(max_batch, t->max_batch());
  TableLatency points;
  for (uint32_t b = 1; b <= max_batch; ++b) {
    for (const auto& t : tables) {
      double& ms = points.points_ms[b];
      ms = std::max(ms, (*t)(b).millis());
    }
  }
  return *LatencyTable::make(points, max_batch);
}

void Run::add_models() {
  next_arrival_.resize(scenario_.models.size());
  for (size_t i = 0; i < scenario_.models.size(); ++i) {
    const SimulatedModel& model = scenario_.models[i];
    policy::KeyInfo info{.name = model.name, .slo = model.slo};
    info.rate_rps = scenario_.rate_of(model);
    std::vector<std::shared_ptr<const LatencyTable>> tables;
    for (const LatencyModel& latency : model.latency) {
      tables.push_back(*LatencyTable::make(latency, model.max_batch));
    }
    info.latency = slowest(tables);
    if (tables.size() > 1) info.latency_by_type = std::move(tables);
    const uint32_t max_batch = info.latency->max_batch();
    const KeyId key = scheduler_->add_key(std::move(info));
    FERMATA_CHECK(key.index() == i);
    sources_.push_back(
        {Arrivals(model.arrival, scenario_.rate_of(model), Time(), Random(scenario_.seed, i)),
         model.slo});
    next_arrival_.set(i, sources_[i].arrivals.next());
    ModelResult& result = result_.models.emplace_back();
    result.name = model.name;
    result.batches.resize(max_batch + 1);
  }
}

void Run::add_workers() {
  for (size_t type = 0; type < scenario_.workers.size(); ++type) {
    for (uint32_t i = 0; i < scenario_.workers[type].count; ++i) {
      scheduler_->add_worker(Time(), decisions_, static_cast<uint32_t>(type));
    }
  }
  workers_.resize(scenario_.worker_count());
  next_end_.resize(workers_.size());
}

Result Run::go() {
  // Later arrivals go on until every measured request has met its deadline, so
  // that the last ones see the same load as the others.
  Duration longest;
  for (const Source& source : sources_) longest = std::max(longest, source.slo);
  const Time end = to_ + longest;
  while (true) {
    const Time next = std::min({next_end_.top(), next_arrival_.top(), scheduler_->next_wake()});
    if (next > end) break;
    step();
    if (options_.progress && result_.events % kProgressEvery == 0) {
      options_.progress((next - Time()).seconds() / (end - Time()).seconds());
    }
  }
  for (const ModelResult& m : result_.models) {
    FERMATA_CHECK(m.offered == m.on_time + m.late + m.dropped);
  }
  return std::move(result_);
}

void Run::step() {
  ++result_.events;
  const Time end = next_end_.top(), arrival = next_arrival_.top();
  const Time wake = scheduler_->next_wake();
  Time now;
  if (end <= arrival && end <= wake) {
    end_batch(now = end);
  } else if (arrival <= wake) {
    arrive(now = arrival);
  } else {
    scheduler_->tick(now = wake, decisions_);
  }
  act(now);
}

void Run::arrive(Time now) {
  const size_t i = next_arrival_.top_index();
  Source& source = sources_[i];
  const policy::Task task{JobId(jobs_++), KeyId(static_cast<uint32_t>(i)), now, now + source.slo};
  next_arrival_.set(i, source.arrivals.next());
  if (measured(now)) ++result_.models[i].offered;
  if (options_.trace != nullptr) {
    options_.trace->push_back({TraceEvent::kArrived, task.items, task.key, WorkerId::none(),
                               task.job, now, now, task.deadline});
  }
  scheduler_->nominate(task, now, decisions_);
}

void Run::end_batch(Time now) {
  const size_t i = next_end_.top_index();
  WorkerState& worker = workers_[i];
  worker.ends[0] = worker.ends[1];
  next_end_.set(i, --worker.bound > 0 ? worker.ends[0] : Time::infinite());
  scheduler_->freed(WorkerId(static_cast<uint32_t>(i)), now, decisions_);
}

void Run::act(Time now) {
  if (decisions_.bound.empty() && decisions_.dropped.empty()) return;
  for (const policy::Batch& batch : decisions_.bound) start(batch, now);
  for (const policy::Dropped& dropped : decisions_.dropped) drop(dropped.task, now);
  decisions_.clear();
}

void Run::start(const policy::Batch& batch, Time now) {
  WorkerState& worker = workers_[batch.worker.index()];
  FERMATA_CHECK(worker.bound < 2 && batch.start >= now);
  worker.ends[worker.bound++] = batch.finish;
  next_end_.set(batch.worker.index(), worker.ends[0]);
  result_.busy += std::max(std::min(batch.finish, to_) - std::max(batch.start, from_), Duration());
  if (options_.trace != nullptr) {
    options_.trace->push_back({TraceEvent::kStarted, batch.items, batch.key, batch.worker,
                               JobId::none(), now, batch.start, batch.finish});
  }
  mix(static_cast<uint64_t>(batch.start.nanos()));
  mix(batch.worker.value());
  ModelResult& model = result_.models[batch.key.index()];
  bool any_measured = false;
  for (const policy::Task& task : batch.tasks) {
    mix(task.job.value());
    if (options_.trace != nullptr) {
      options_.trace->push_back({TraceEvent::kTaken, task.items, task.key, batch.worker, task.job,
                                 now, batch.start, batch.finish});
    }
    if (!measured(task.arrival)) continue;
    any_measured = true;
    ++(batch.finish <= task.deadline ? model.on_time : model.late);
    model.latency.record(batch.finish - task.arrival);
    model.queueing.record(batch.start - task.arrival);
  }
  if (any_measured) ++model.batches[batch.items];
}

void Run::drop(const policy::Task& task, Time now) {
  mix(~task.job.value());
  if (options_.trace != nullptr) {
    options_.trace->push_back(
        {TraceEvent::kDropped, task.items, task.key, WorkerId::none(), task.job, now, now, now});
  }
  if (measured(task.arrival)) ++result_.models[task.key.index()].dropped;
}

}  // namespace

absl::StatusOr<Result> run(const Scenario& scenario, const RunOptions& options) {
  ASSIGN_OR_RETURN(auto scheduler, policy::make_scheduler(scenario.scheduler));
  return Run(scenario, options, std::move(scheduler)).go();
}

}  // namespace fermata::simulate
