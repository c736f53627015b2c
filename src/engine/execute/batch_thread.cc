#include "engine/execute/batch_thread.h"

#include <pthread.h>
#include <sched.h>

#include <utility>

namespace fermata::engine {

BatchThread::BatchThread(absl::AnyInvocable<void(BatchRun&)> run)
    : run_(std::move(run)), thread_([this] { loop(); }) {}

BatchThread::~BatchThread() {
  stopped_ = true;
  parker_.unpark();
  thread_.join();
}

void BatchThread::run(BatchRun batch) {
  ++sent_;
  batches_.enqueue(in_order_, std::move(batch));
  parker_.unpark();
}

void BatchThread::post(absl::AnyInvocable<void()> command) {
  {
    const std::lock_guard lock(mutex_);
    commands_.push_back({sent_, std::move(command)});
    first_ = commands_.front().after;
    ++posted_;
  }
  parker_.unpark();
}

void BatchThread::wait() {
  uint64_t until = 0;
  {
    const std::lock_guard lock(mutex_);
    until = posted_;
  }
  for (uint64_t done = done_.load(); done < until; done = done_.load()) done_.wait(done);
}

void BatchThread::pin(const std::vector<uint32_t>& processors) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const uint32_t processor : processors) CPU_SET(processor, &set);
  (void)pthread_setaffinity_np(thread_.native_handle(), sizeof(set), &set);
}

absl::AnyInvocable<void()> BatchThread::next() {
  const std::lock_guard lock(mutex_);
  absl::AnyInvocable<void()> command = std::move(commands_.front().what);
  commands_.pop_front();
  first_ = commands_.empty() ? kNobody : commands_.front().after;
  return command;
}

void BatchThread::loop() {
  uint64_t ran = 0;
  while (true) {
    const bool last = stopped_;
    BatchRun batch;
    if (ran >= first_) {
      next()();
      ++done_;
      done_.notify_all();
    } else if (batches_.try_dequeue(batch)) {
      run_(batch);
      ++ran;
    } else if (last) {
      return;
    } else {
      parker_.park_until(Time::infinite());
    }
  }
}

}  // namespace fermata::engine
