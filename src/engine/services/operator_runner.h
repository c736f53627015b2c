#pragma once

#include <array>
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
// ends then, whatever the threads run. Half of the threads leave alone what takes long (a picture
// of many pixels, by Operator::work()), so that it never makes all of the rest wait. What they give
// to models that have yet to take it is bounded: pictures wait as they were sent.
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
    // No model has run before it: as long as its outputs are held they count as ahead of models.
    bool ahead = false;
    // Nor any operator: it waits while so much is ahead, but for what `runs` keep models busy.
    bool first = false;
    uint32_t runs = 0;
  };

  // From so much work on it takes long.
  static constexpr uint64_t kLong = uint64_t{16} << 20;

  // At least one thread, which takes all. `ahead_bytes`: of outputs ahead of models.
  OperatorRunner(uint32_t threads, uint64_t ahead_bytes);
  // What waits ends with UNAVAILABLE, what runs ends first.
  ~OperatorRunner();

  // Any thread; returns at once. `done` is called once unless it is cancelled, on a thread of this
  // object; it must not block. O(log waiting), as is cancel().
  void submit(Work work);
  // Any thread. Takes back what waits: its inputs are freed, `done` is not called. False where it
  // runs, or has ended.
  bool cancel(JobId id);

 private:
  // Its inputs are in the order that the operator wants; else `whole` says what is missing.
  struct Sorted : Work {
    absl::Status whole;
    absl::StatusOr<std::vector<Tensor>> run() const;
  };
  using Place = std::pair<Time, uint64_t>;  // the deadline, and as which it came
  using Waiting = std::map<Place, Sorted>;
  // What outlives this where outputs do.
  struct Shared {
    std::mutex mutex;
    std::condition_variable work;
    uint64_t bytes = 0;  // ahead of models
    uint32_t runs = 0;   // whose outputs these are
  };
  class Ahead;

  void run(bool takes_long);
  void end_the_late();
  void count_ahead(std::vector<Tensor>& outputs);
  // Under the lock, which is free while `done` runs.
  void end(std::unique_lock<std::mutex>& lock, absl::Status why);
  // What is first, of what takes long too or not, and of all or of what may begin; null: nothing.
  Waiting* first(bool takes_long, bool of_all);
  bool may_begin(const Work& work) const;
  Sorted take_first(Waiting& waiting);

  const uint64_t ahead_bytes_;
  const std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::mutex& mutex_ = shared_->mutex;
  std::condition_variable deadline_;
  bool stopping_ = false;
  uint64_t submitted_ = 0;
  // Short ones, long ones, and of both those that are `first`.
  std::array<Waiting, 4> waiting_;
  absl::flat_hash_map<JobId, std::pair<Waiting*, Place>> places_;
  std::vector<std::thread> threads_;  // the last ends what is late
};

}  // namespace fermata::engine
