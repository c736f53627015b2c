#include "engine/services/operator_runner.h"

#include <chrono>

#include "absl/algorithm/container.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/status.h"

namespace fermata::engine {
namespace {

absl::StatusOr<std::vector<Tensor>> run_operator(const OperatorRunner::Work& work) {
  std::vector<Tensor> inputs;
  for (const TensorSpec& wanted : work.op->inputs()) {
    const auto at =
        absl::c_find_if(work.inputs, [&](const Tensor& t) { return t.name == wanted.name; });
    if (at == work.inputs.end()) return invalid("input '{}' is missing", wanted.name);
    inputs.push_back(*at);
  }
  return work.op->run(inputs);
}

absl::Status too_late() {
  return error(absl::StatusCode::kDeadlineExceeded, "the deadline passed before it could begin");
}

}  // namespace

OperatorRunner::OperatorRunner(uint32_t threads) {
  FERMATA_CHECK(threads > 0);
  for (uint32_t i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
  threads_.emplace_back([this] { end_the_late(); });
}

OperatorRunner::~OperatorRunner() {
  {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    while (!waiting_.empty()) {
      end(lock, error(absl::StatusCode::kUnavailable, "the server is stopping"));
    }
  }
  work_.notify_all();
  deadline_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void OperatorRunner::submit(Work work) {
  bool first;
  {
    const std::lock_guard lock(mutex_);
    const Place place(work.deadline, submitted_++);
    places_[work.id] = place;
    waiting_.emplace(place, std::move(work));
    first = waiting_.begin()->first == place && !place.first.is_infinite();
  }
  work_.notify_one();
  if (first) deadline_.notify_one();
}

bool OperatorRunner::cancel(JobId id) {
  std::map<Place, Work>::node_type gone;  // freed beyond the lock
  const std::lock_guard lock(mutex_);
  const auto place = places_.find(id);
  if (place == places_.end()) return false;
  gone = waiting_.extract(place->second);
  places_.erase(place);
  return true;
}

OperatorRunner::Work OperatorRunner::take_first() {
  Work work = std::move(waiting_.extract(waiting_.begin()).mapped());
  places_.erase(work.id);
  return work;
}

void OperatorRunner::end(std::unique_lock<std::mutex>& lock, absl::Status why) {
  Work work = take_first();
  lock.unlock();
  work.done({.outputs = std::move(why), .waited = monotonic_now() - work.submitted});
  lock.lock();
}

void OperatorRunner::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const Time started = monotonic_now();
    if (waiting_.begin()->first.first < started) {
      end(lock, too_late());
      continue;
    }
    Work work = take_first();
    lock.unlock();
    auto outputs = run_operator(work);
    work.done({.outputs = std::move(outputs),
               .waited = started - work.submitted,
               .ran = monotonic_now() - started});
    work = {};
    lock.lock();
  }
}

void OperatorRunner::end_the_late() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const Time first = waiting_.empty() ? Time::infinite() : waiting_.begin()->first.first;
    if (first.is_infinite()) {
      deadline_.wait(lock);
    } else if (const Duration left = first - monotonic_now(); left >= Duration()) {
      deadline_.wait_for(lock, std::chrono::nanoseconds(left.nanos() + 1));
    } else {
      end(lock, too_late());
    }
  }
}

}  // namespace fermata::engine
