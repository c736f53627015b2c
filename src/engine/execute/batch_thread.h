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

// The thread of an executor: runs batches in the order in which they come and, while none waits,
// what else was posted, so that nothing is unloaded before the batches that were sent before.
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
  void loop();
  bool next(absl::AnyInvocable<void()>& command);

  absl::AnyInvocable<void(BatchRun&)> run_;
  moodycamel::ConcurrentQueue<BatchRun> batches_;
  moodycamel::ProducerToken in_order_{batches_};  // whichever threads they come from
  std::mutex mutex_;
  std::deque<absl::AnyInvocable<void()>> commands_;
  uint64_t posted_ = 0;
  std::atomic<uint64_t> done_{0};
  std::atomic<bool> stopped_{false};
  Parker parker_;
  std::thread thread_;
};

}  // namespace fermata::engine
