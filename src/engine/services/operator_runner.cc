#include "engine/services/operator_runner.h"

#include <chrono>

#include "absl/algorithm/container.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/status.h"

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

OperatorRunner::OperatorRunner(uint32_t threads) {
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
    while (first(true) != nullptr) {
      end(lock, error(absl::StatusCode::kUnavailable, "the server is stopping"));
    }
  }
  work_.notify_all();
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
  Waiting& waiting = takes_long ? long_ : short_;
  bool is_first;
  {
    const std::lock_guard lock(mutex_);
    const Place place(work.deadline, submitted_++);
    places_[work.id] = {&waiting, place};
    waiting.emplace(place, Sorted{std::move(work), std::move(whole)});
    is_first = waiting.begin()->first == place && !place.first.is_infinite();
  }
  work_.notify_all();  // some of them may leave it alone
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

OperatorRunner::Waiting* OperatorRunner::first(bool takes_long) {
  const bool has_long = takes_long && !long_.empty();
  if (short_.empty()) return has_long ? &long_ : nullptr;
  return has_long && long_.begin()->first < short_.begin()->first ? &long_ : &short_;
}

OperatorRunner::Sorted OperatorRunner::take_first(Waiting& waiting) {
  Sorted work = std::move(waiting.extract(waiting.begin()).mapped());
  places_.erase(work.id);
  return work;
}

void OperatorRunner::end(std::unique_lock<std::mutex>& lock, absl::Status why) {
  Work work = take_first(*first(true));
  lock.unlock();
  work.done({.outputs = std::move(why), .waited = monotonic_now() - work.submitted});
  lock.lock();
}

void OperatorRunner::run(bool takes_long) {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [&] { return stopping_ || first(takes_long) != nullptr; });
    Waiting* const waiting = first(takes_long);
    if (waiting == nullptr) return;
    const Time started = monotonic_now();
    Sorted work = take_first(*waiting);
    lock.unlock();
    const bool is_late = work.deadline < started;
    auto outputs = is_late ? too_late() : work.run();
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
    const Waiting* const waiting = first(true);
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
