#include "serve/net/background.h"

#include <utility>

namespace fermata::serve {

Background::Background(size_t threads) {
  for (size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
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

void Background::post(absl::AnyInvocable<void()> work) {
  std::unique_lock lock(mutex_);
  if (stopping_) {
    lock.unlock();
    return work();
  }
  queue_.push_back(std::move(work));
  lock.unlock();
  changed_.notify_one();
}

void Background::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    auto work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    work();
    lock.lock();
  }
}

}  // namespace fermata::serve
