#pragma once

#include <blockingconcurrentqueue.h>

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "base/time.h"
#include "model/tensor.h"
#include "operators/operator.h"

namespace fermata::engine {

// Background threads on which the operators of pipelines run, first come, first served.
class OperatorRunner {
 public:
  struct Answer {
    absl::StatusOr<std::vector<Tensor>> outputs;
    Duration waited, ran;
  };
  struct Work {
    std::shared_ptr<const operators::Operator> op;
    std::vector<Tensor> inputs;  // by name
    Time submitted, deadline;    // after the deadline it is not run: DEADLINE_EXCEEDED
    absl::AnyInvocable<void(Answer)> done;
  };

  // At least one thread.
  explicit OperatorRunner(uint32_t threads);
  // What waits ends with UNAVAILABLE, what runs ends first.
  ~OperatorRunner();

  // Any thread; returns at once. `done` is called once, on one of the threads; it must not block.
  void submit(Work work) { queue_.enqueue(std::make_unique<Work>(std::move(work))); }

 private:
  void loop();

  moodycamel::BlockingConcurrentQueue<std::unique_ptr<Work>> queue_;  // null: a thread ends
  std::vector<std::thread> threads_;
};

}  // namespace fermata::engine
