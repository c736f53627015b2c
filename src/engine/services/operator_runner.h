#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "base/ids.h"
#include "base/time.h"
#include "model/tensor.h"
#include "operators/operator.h"

namespace fermata::engine {

// Background threads on which the operators of pipelines run, by deadline, those of one deadline
// and those without any in the order in which they came. What is still waiting at its deadline
// ends then, whatever the threads run.
class OperatorRunner {
 public:
  struct Answer {
    absl::StatusOr<std::vector<Tensor>> outputs;
    Duration waited, ran;
  };
  struct Work {
    JobId id;  // of no other that waits
    std::shared_ptr<const operators::Operator> op;
    std::vector<Tensor> inputs;  // by name
    Time submitted, deadline;    // where it has not begun by then: DEADLINE_EXCEEDED
    absl::AnyInvocable<void(Answer)> done;
  };

  // At least one thread.
  explicit OperatorRunner(uint32_t threads);
  // What waits ends with UNAVAILABLE, what runs ends first.
  ~OperatorRunner();

  // Any thread; returns at once. `done` is called once unless it is cancelled, on a thread of this
  // object; it must not block. O(log waiting), as is cancel().
  void submit(Work work);
  // Any thread. Takes back what waits: its inputs are freed, `done` is not called. False where it
  // runs, or has ended.
  bool cancel(JobId id);

 private:
  using Place = std::pair<Time, uint64_t>;  // the deadline, and as which it came

  void run();
  void end_the_late();
  // Under the lock, which is free while `done` runs.
  void end(std::unique_lock<std::mutex>& lock, absl::Status why);
  Work take_first();

  std::mutex mutex_;
  std::condition_variable work_, deadline_;
  bool stopping_ = false;
  uint64_t submitted_ = 0;
  std::map<Place, Work> waiting_;
  absl::flat_hash_map<JobId, Place> places_;
  std::vector<std::thread> threads_;  // the last ends what is late
};

}  // namespace fermata::engine
