#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>

#include "by_hand.h"
#include "policy/scheduler.h"

namespace fermata::policy {

// A scheduler driven by hand: the test says what happens when, and reads what
// was decided since it last looked. Times in milliseconds.
class Hand {
 public:
  explicit Hand(std::string_view policy) : scheduler(*make_scheduler(policy)) {}

  KeyId key(double alpha_ms, double beta_ms, double slo_ms, uint32_t max_batch = 64) {
    return scheduler->add_key({"model" + std::to_string(++keys_),
                               linear(alpha_ms, beta_ms, max_batch),
                               Duration::from_millis(slo_ms)});
  }
  WorkerId worker(double now_ms = 0) { return scheduler->add_worker(at_ms(now_ms), out); }

  Task task(KeyId key, double now_ms, double timeout_ms, uint32_t items = 1) {
    return {JobId(++jobs_), key, at_ms(now_ms), at_ms(now_ms + timeout_ms), items};
  }
  Task arrive(KeyId key, double now_ms, double timeout_ms, uint32_t items = 1) {
    const Task t = task(key, now_ms, timeout_ms, items);
    scheduler->nominate(t, at_ms(now_ms), out);
    return t;
  }
  Task arrive_best_effort(KeyId key, double now_ms, uint32_t items = 1) {
    const Task t{JobId(++jobs_), key, at_ms(now_ms), Time::infinite(), items};
    scheduler->nominate(t, at_ms(now_ms), out);
    return t;
  }
  // That may start at once, as a plan says.
  void arrive_planned(Task task) {
    task.start_from = task.arrival;
    scheduler->nominate(task, task.arrival, out);
  }
  void tick(double now_ms) { scheduler->tick(at_ms(now_ms), out); }
  void freed(WorkerId worker, double now_ms) { scheduler->ended(worker, at_ms(now_ms), out); }
  double wake_ms() const { return (scheduler->next_wake() - Time()).millis(); }

  // The one batch bound since the last look.
  Batch batch() {
    EXPECT_EQ(out.bound.size(), 1u);
    Batch b = out.bound.empty() ? Batch{} : out.bound[0];
    out.clear();
    return b;
  }
  bool quiet() const { return out.bound.empty() && out.dropped.empty(); }

  std::unique_ptr<Scheduler> scheduler;
  Decisions out;

 private:
  uint64_t jobs_ = 0;
  int keys_ = 0;
};

}  // namespace fermata::policy
