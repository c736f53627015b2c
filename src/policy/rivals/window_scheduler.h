#pragma once

#include <deque>
#include <vector>

#include "plan/variants/group_planner.h"
#include "policy/kept_decisions.h"
#include "policy/scheduler.h"
#include "policy/variants/variants_queue.h"

namespace fermata::policy {

// Data-aware serving as published (SneakPeek 3.2, 5): what arrives in a window is planned at
// its end by a GroupPlanner, behind what the windows before have left on the workers, and then
// runs as planned. Every request is served, late or not, or short-circuited. A service of one
// model counts as a service with one variant.
//
// Without a window everything that has not started is planned again whenever something
// arrives, ends or is learned while a worker is free. The exact search is cut short where it
// would take about a millisecond.
class WindowScheduler final : public Scheduler {
 public:
  // Windows begin at multiples of settings.window; zero: none.
  WindowScheduler(plan::GroupPolicy policy, const ServiceSettings& settings)
      : policy_(policy), settings_(settings), window_(settings.window) {}

  KeyId add_key(KeyInfo info) override;
  void remove_key(KeyId key) override;
  void update_latency(KeyId key, LatencyByType latency, Time now, Decisions& out) override;
  void set_delay_bound(DelayBound bound) override { delay_ = bound; }
  WorkerId add_worker(Time now, Decisions& out, uint32_t type, int64_t memory_bytes) override;
  bool serves(Kind kind) const override { return kind == Kind::kVariants; }
  KeyId add_service(const ServiceInfo& info) override;
  void learned(const Task& task, const Estimate& estimate, Time now, Decisions& out) override;

  void nominate(const Task& task, Time now, Decisions& out) override;
  bool withdraw(const Task& task, Time now, Decisions& out) override;
  void ended(const BatchEnd& batch, Time now, Decisions& out) override;
  void tick(Time now, Decisions& out) override;
  Time next_wake() const override;
  uint64_t waiting_items(KeyId key) const override;
  std::vector<Problem> last_problems() const override { return kept_.newest<Problem>(); }

 private:
  struct Planned {
    KeyId key;
    uint32_t items = 0;
    bool load = false;
    Duration run;
    std::vector<Task> tasks;
    std::shared_ptr<const LatencyTable> latency;
  };
  using Planning = std::deque<Planned>;  // of one worker, the next first

  bool idle(size_t worker) const { return pool_.workers()[worker].running == 0; }
  const plan::GroupSchedule& plan(Time now, Decisions& out);
  void close_window(Time now, Decisions& out);
  void replan(Time now, Decisions& out);
  void append(const plan::GroupSchedule& schedule, const plan::GroupBatch& batch);
  void forget(size_t worker, Planning::iterator batch);
  void serve(size_t worker, Time now, Decisions& out);

  const plan::GroupPolicy policy_;
  const ServiceSettings settings_;
  const Duration window_;
  PoolView pool_;  // what its workers hold: when all is done that is planned
  VariantsQueue queue_{pool_};
  KeptDecisions<plan::GroupProblem> kept_;
  plan::GroupPlanner planner_;
  DelayBound delay_;
  std::vector<Planning> planned_;  // by worker
  Time window_end_ = Time::infinite();
};

}  // namespace fermata::policy
