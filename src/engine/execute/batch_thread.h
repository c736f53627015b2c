#pragma once

#include <concurrentqueue.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "engine/execute/executor.h"
#include "engine/threads/parker.h"

namespace fermata::engine {

// The thread of an executor: runs batches in the order in which they come, and what else was posted
// after those that were sent before it, so that nothing is unloaded that they need.
class BatchThread {
 public:
  // `run` runs on the thread, one batch at a time.
  explicit BatchThread(absl::AnyInvocable<void(BatchRun&)> run);
  ~BatchThread();  // what waits runs first

  // One thread at a time.
  void run(BatchRun batch);
  // Any thread but its own, for both. wait() returns once what was posted before it has been done.
  void post(absl::AnyInvocable<void()> command);
  void wait();
  // A wish: where the system does not grant it the thread runs anywhere.
  void pin(const std::vector<uint32_t>& processors);

 private:
  static constexpr uint64_t kNobody = ~uint64_t{0};
  void loop();
  absl::AnyInvocable<void()> next();

  absl::AnyInvocable<void(BatchRun&)> run_;
  moodycamel::ConcurrentQueue<BatchRun> batches_;
  moodycamel::ProducerToken in_order_{batches_};  // whichever threads they come from
  struct Command {
    uint64_t after = 0;  // so many batches
    absl::AnyInvocable<void()> what;
  };
  std::mutex mutex_;
  std::deque<Command> commands_;
  uint64_t posted_ = 0;
  std::atomic<uint64_t> sent_{0};         // batches
  std::atomic<uint64_t> first_{kNobody};  // as Command::after, of the first
  std::atomic<uint64_t> done_{0};
  std::atomic<bool> stopped_{false};
  Parker parker_;
  std::thread thread_;
};

}  // namespace fermata::engine
