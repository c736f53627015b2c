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
    threads_.emplace_back([this, takes_long = i == 0] { run(takes_long); });
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
  Queue& queue = price.bytes >= kLong ? long_ : short_;
  queue.emplace(Tag(last, posted_++), Work{std::move(work), price.connection});
  lock.unlock();
  changed_.notify_all();  // some leave it alone
}

Background::Queue* Background::first(bool takes_long) {
  const bool has_long = takes_long && !long_.empty();
  if (short_.empty()) return has_long ? &long_ : nullptr;
  return has_long && long_.begin()->first < short_.begin()->first ? &long_ : &short_;
}

absl::AnyInvocable<void()> Background::take(Queue& queue) {
  auto taken = queue.extract(queue.begin());
  const uint64_t tag = taken.key().first;
  now_ = std::max(now_, tag);
  const auto last = last_.find(taken.mapped().connection);
  if (last != last_.end() && last->second <= tag) last_.erase(last);  // nothing of it waits
  return std::move(taken.mapped().run);
}

void Background::run(bool takes_long) {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || first(takes_long) != nullptr; });
    Queue* const queue = first(takes_long);
    if (queue == nullptr) return;
    auto work = take(*queue);
    lock.unlock();
    work();
    work = nullptr;
    lock.lock();
  }
}

}  // namespace fermata::serve
