#pragma once

#include <concurrentqueue.h>

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/types/span.h"
#include "engine/threads/parker.h"

namespace fermata::engine {

// A background thread, for what neither it nor a front end may wait for. Takes work
// from any thread, several pieces at once where several wait.
template <class Work>
class BackgroundThread {
 public:
  // `handle` is called on the thread with 1 to `together` pieces of work, in order, and may move
  // from them. At most `limit` pieces wait.
  BackgroundThread(size_t together, size_t limit, absl::AnyInvocable<void(absl::Span<Work>)> handle)
      : together_(together),
        limit_(limit),
        handle_(std::move(handle)),
        thread_([this] { loop(); }) {}

  // Handles what waits first.
  ~BackgroundThread() {
    stopping_ = true;
    parker_.unpark();
    thread_.join();
  }

  // Returns at once. False, and the work untouched, where the queue is full.
  bool submit(Work& work) {
    if (waiting_.fetch_add(1) >= limit_) {
      waiting_.fetch_sub(1);
      return false;
    }
    queue_.enqueue(std::move(work));
    parker_.unpark();
    return true;
  }

 private:
  void loop() {
    std::vector<Work> batch(together_);
    while (true) {
      const bool last = stopping_;
      const size_t count = queue_.try_dequeue_bulk(batch.begin(), together_);
      if (count > 0) {
        handle_(absl::MakeSpan(batch).first(count));
        for (size_t i = 0; i < count; ++i) batch[i] = Work();
        waiting_.fetch_sub(count);
      } else if (last) {
        return;
      } else {
        parker_.park_until(Time::infinite());
      }
    }
  }

  const size_t together_, limit_;
  absl::AnyInvocable<void(absl::Span<Work>)> handle_;
  moodycamel::ConcurrentQueue<Work> queue_;
  std::atomic<size_t> waiting_{0};
  std::atomic<bool> stopping_{false};
  Parker parker_;
  std::thread thread_;
};

}  // namespace fermata::engine
