#include "serve/net/background.h"

#include <algorithm>
#include <ctime>

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
}

void Background::post(absl::AnyInvocable<void()> work, Price price) {
  std::unique_lock lock(mutex_);
  if (stopping_) {
    lock.unlock();
    return work();
  }
  uint64_t& last = last_[price.connection];
  last = std::max(last, now_) + price.bytes;
  Queue& queue = queues_[price.bytes >= kLong ? 2 : price.bytes > kShort ? 1 : 0];
  queue.emplace(Tag(last, posted_++), Work{std::move(work), price});
  lock.unlock();
  changed_.notify_all();  // some leave it alone
}

Background::Queue* Background::first(size_t takes) {
  Queue* first = nullptr;
  for (size_t i = 0; i < takes; ++i) {
    Queue& queue = queues_[i];
    if (queue.empty()) continue;
    if (first == nullptr || queue.begin()->first < first->begin()->first) first = &queue;
  }
  return first;
}

absl::AnyInvocable<void()> Background::take(Queue& queue) {
  auto taken = queue.extract(queue.begin());
  const Price& price = taken.mapped().price;
  now_ += price.bytes / std::max<size_t>(last_.size(), 1);  // as much for each that waits
  const auto last = last_.find(price.connection);
  if (last != last_.end() && last->second <= taken.key().first) last_.erase(last);  // none waits
  return std::move(taken.mapped().run);
}

void Background::run(size_t takes) {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || first(takes) != nullptr; });
    Queue* const queue = first(takes);
    if (queue == nullptr) return;
    auto work = take(*queue);
    lock.unlock();
    work();
    work = nullptr;
    lock.lock();
  }
}

}  // namespace fermata::serve
