#include "serve/net/background.h"

#include <algorithm>
#include <ctime>
#include <string>

namespace fermata::serve {

Duration work_of_thread() {
  timespec worked{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &worked);
  return Duration::seconds(worked.tv_sec) + Duration::nanos(worked.tv_nsec);
}

Background::Background(size_t threads) {
  for (size_t i = 0; i < threads; ++i) {
    const size_t takes = queues_.size() - std::min(i, queues_.size() - 1);
    threads_.emplace_back([this, takes] { run(takes); });
  }
}

Background::~Background() { finish(); }

void Background::finish() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !runs_rest_; });
  finished_ = true;
  run_rest(lock);
}

void Background::post(absl::AnyInvocable<void()> work, Price price) {
  std::unique_lock lock(mutex_);
  Queue& queue = queues_[price.bytes >= kLong ? 2 : price.bytes > kShort ? 1 : 0];
  queue.push(price.address, price.connection, std::move(work), price.bytes, posted_++);
  if (finished_) return run_rest(lock);
  lock.unlock();
  changed_.notify_all();  // some leave it alone
}

Background::Queue* Background::last(size_t takes) {
  while (takes > 0 && queues_[takes - 1].empty()) --takes;
  return takes == 0 ? nullptr : &queues_[takes - 1];
}

void Background::run(size_t takes) {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || last(takes) != nullptr; });
    Queue* const queue = last(takes);
    if (queue == nullptr) return;
    run_first(*queue, lock);
  }
}

void Background::run_rest(std::unique_lock<std::mutex>& lock) {
  if (std::exchange(runs_rest_, true)) return;  // whoever does takes it too
  while (Queue* const queue = last(queues_.size())) run_first(*queue, lock);
  runs_rest_ = false;
  changed_.notify_all();
}

void Background::run_first(Queue& queue, std::unique_lock<std::mutex>& lock) {
  Work work = queue.pop();
  lock.unlock();
  work();
  work = nullptr;
  lock.lock();
}

}  // namespace fermata::serve
