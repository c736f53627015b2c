#include "engine/schedule/threaded_scheduler.h"

#include "base/status.h"

namespace fermata::engine {

absl::StatusOr<std::unique_ptr<ThreadedScheduler>> ThreadedScheduler::make(
    std::string_view policy, size_t threads, const std::optional<policy::Rules>& rules) {
  std::unique_ptr<ThreadedScheduler> scheduler(new ThreadedScheduler());
  ASSIGN_OR_RETURN(scheduler->sharded_, ShardedScheduler::make(
                                            policy, threads,
                                            [s = scheduler.get()](size_t, ShardDecisions& d,
                                                                  Time now) { s->decided(d, now); },
                                            rules));
  scheduler->caller_.emplace(*scheduler->sharded_);
  return scheduler;
}

void ThreadedScheduler::start(std::function<void()> decided) {
  wake_ = std::move(decided);
  sharded_->start();
}

KeyId ThreadedScheduler::add_key(policy::KeyInfo info) {
  const KeyId key = sharded_->add_key(std::move(info));  // of a new number, or of one that is free
  if (key.index() >= waiting_.size()) waiting_.resize(key.index() + 1);
  waiting_[key.index()] = 0;
  return key;
}

void ThreadedScheduler::update_latency(KeyId key, LatencyByType latency, Time, policy::Decisions&) {
  sharded_->update_latency(key, std::move(latency));
}

WorkerId ThreadedScheduler::add_worker(Time, policy::Decisions&, uint32_t type, int64_t) {
  return sharded_->add_worker(type);
}

void ThreadedScheduler::nominate(const policy::Task& task, Time, policy::Decisions&) {
  waiting_[task.key.index()] += task.items;
  caller_->nominate(task);
}

bool ThreadedScheduler::withdraw(const policy::Task& task, Time, policy::Decisions&) {
  caller_->withdraw(task);
  return false;
}

void ThreadedScheduler::ended(const policy::BatchEnd& batch, Time, policy::Decisions&) {
  sharded_->freed(batch.worker);
}

void ThreadedScheduler::decided(ShardDecisions& decided, Time now) {
  auto& [decisions, withdrawn] = decided;
  if (decisions.bound.empty() && decisions.dropped.empty() && withdrawn.empty()) return;
  for (policy::Batch& batch : decisions.bound) bound_.enqueue(std::move(batch));
  for (const policy::Dropped& dropped : decisions.dropped) dropped_.enqueue(dropped);
  for (const policy::Task& task : withdrawn) dropped_.enqueue({task, Duration(), Duration()});
  int64_t none = Time::infinite().nanos();
  decided_at_.compare_exchange_strong(none, now.nanos());
  wake_();
}

void ThreadedScheduler::tick(Time, policy::Decisions& out) {
  decided_at_.store(Time::infinite().nanos());
  drain(bound_, [&](policy::Batch& batch) {
    waiting_[batch.key.index()] -= batch.items;
    out.bound.push_back(std::move(batch));
  });
  drain(dropped_, [&](const policy::Dropped& dropped) {
    waiting_[dropped.task.key.index()] -= dropped.task.items;
    out.dropped.push_back(dropped);
  });
}

}  // namespace fermata::engine
