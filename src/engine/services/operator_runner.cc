#include "engine/services/operator_runner.h"

#include <chrono>

#include "absl/algorithm/container.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/status.h"
#include "model/tensor_values.h"

namespace fermata::engine {
namespace {

// In the order that the operator wants.
absl::Status sort_inputs(OperatorRunner::Work& work) {
  std::vector<Tensor> inputs;
  for (const TensorSpec& wanted : work.op->inputs()) {
    const auto at =
        absl::c_find_if(work.inputs, [&](const Tensor& t) { return t.name == wanted.name; });
    if (at == work.inputs.end()) return invalid("input '{}' is missing", wanted.name);
    inputs.push_back(*at);
  }
  work.inputs = std::move(inputs);
  return absl::OkStatus();
}

absl::Status too_late() {
  return error(absl::StatusCode::kDeadlineExceeded, "the deadline passed before it could begin");
}

}  // namespace

// The outputs of one run are ahead of models, until the last who holds one of them lets go.
class OperatorRunner::Ahead {
 public:
  Ahead(std::shared_ptr<Shared> shared, uint64_t bytes)
      : shared_(std::move(shared)), bytes_(bytes) {
    const std::lock_guard lock(shared_->mutex);
    shared_->bytes += bytes_;
    ++shared_->runs;
  }
  ~Ahead() {
    {
      const std::lock_guard lock(shared_->mutex);
      shared_->bytes -= bytes_;
      --shared_->runs;
    }
    shared_->work.notify_all();
  }
  Ahead(const Ahead&) = delete;
  Ahead& operator=(const Ahead&) = delete;

 private:
  const std::shared_ptr<Shared> shared_;
  const uint64_t bytes_;
};

OperatorRunner::OperatorRunner(uint32_t threads, uint64_t ahead_bytes) : ahead_bytes_(ahead_bytes) {
  FERMATA_CHECK(threads > 0);
  for (uint32_t i = 0; i < threads; ++i) {
    threads_.emplace_back([this, takes_long = i < (threads + 1) / 2] { run(takes_long); });
  }
  threads_.emplace_back([this] { end_the_late(); });
}

OperatorRunner::~OperatorRunner() {
  {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    while (first(true, true) != nullptr) {
      end(lock, error(absl::StatusCode::kUnavailable, "the server is stopping"));
    }
  }
  shared_->work.notify_all();
  deadline_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

absl::StatusOr<std::vector<Tensor>> OperatorRunner::Sorted::run() const {
  RETURN_IF_ERROR(whole);
  return op->run(inputs);
}

void OperatorRunner::submit(Work work) {
  absl::Status whole = sort_inputs(work);
  const bool takes_long = whole.ok() && work.op->work(work.inputs) >= kLong;
  Waiting& waiting = waiting_[(work.first ? 2 : 0) + (takes_long ? 1 : 0)];
  bool is_first;
  {
    const std::lock_guard lock(mutex_);
    const Place place(work.deadline, submitted_++);
    places_[work.id] = {&waiting, place};
    waiting.emplace(place, Sorted{std::move(work), std::move(whole)});
    is_first = waiting.begin()->first == place && !place.first.is_infinite();
  }
  shared_->work.notify_all();  // some of them may leave it alone
  if (is_first) deadline_.notify_one();
}

bool OperatorRunner::cancel(JobId id) {
  Waiting::node_type gone;  // freed beyond the lock
  const std::lock_guard lock(mutex_);
  const auto place = places_.find(id);
  if (place == places_.end()) return false;
  gone = place->second.first->extract(place->second.second);
  places_.erase(place);
  return true;
}

bool OperatorRunner::may_begin(const Work& work) const {
  return !work.first || shared_->bytes < ahead_bytes_ || shared_->runs < work.runs;
}

OperatorRunner::Waiting* OperatorRunner::first(bool takes_long, bool of_all) {
  Waiting* first = nullptr;
  for (size_t w = 0; w < waiting_.size(); ++w) {
    Waiting& own = waiting_[w];
    if (own.empty() || (w % 2 == 1 && !takes_long)) continue;
    if (!of_all && !may_begin(own.begin()->second)) continue;
    if (first == nullptr || own.begin()->first < first->begin()->first) first = &own;
  }
  return first;
}

OperatorRunner::Sorted OperatorRunner::take_first(Waiting& waiting) {
  Sorted work = std::move(waiting.extract(waiting.begin()).mapped());
  places_.erase(work.id);
  return work;
}

void OperatorRunner::end(std::unique_lock<std::mutex>& lock, absl::Status why) {
  {
    Work work = take_first(*first(true, true));
    lock.unlock();
    work.done({.outputs = std::move(why), .waited = monotonic_now() - work.submitted});
  }
  lock.lock();
}

void OperatorRunner::count_ahead(std::vector<Tensor>& outputs) {
  const auto ahead = std::make_shared<const Ahead>(shared_, payload_bytes(outputs));
  for (Tensor& tensor : outputs) {
    tensor.data.owner = std::make_shared<std::pair<std::shared_ptr<const void>, decltype(ahead)>>(
        std::move(tensor.data.owner), ahead);
  }
}

void OperatorRunner::run(bool takes_long) {
  std::unique_lock lock(mutex_);
  while (true) {
    shared_->work.wait(lock, [&] { return stopping_ || first(takes_long, false) != nullptr; });
    Waiting* const waiting = first(takes_long, false);
    if (waiting == nullptr) return;
    const Time started = monotonic_now();
    Sorted work = take_first(*waiting);
    lock.unlock();
    const bool is_late = work.deadline < started;
    auto outputs = is_late ? too_late() : work.run();
    if (work.ahead && outputs.ok()) count_ahead(*outputs);
    work.done({.outputs = std::move(outputs),
               .waited = started - work.submitted,
               .ran = is_late ? Duration() : monotonic_now() - started});
    work = {};
    lock.lock();
  }
}

void OperatorRunner::end_the_late() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const Waiting* const waiting = first(true, true);
    const Time next = waiting == nullptr ? Time::infinite() : waiting->begin()->first.first;
    if (next.is_infinite()) {
      deadline_.wait(lock);
    } else if (const Duration left = next - monotonic_now(); left >= Duration()) {
      deadline_.wait_for(lock, std::chrono::nanoseconds(left.nanos() + 1));
    } else {
      end(lock, too_late());
    }
  }
}

}  // namespace fermata::engine
