#pragma once

#include <memory>
#include <vector>

#include "policy/application_queue.h"
#include "policy/batcher.h"
#include "policy/lookahead.h"

namespace fermata::policy {

// The batcher of all applications of a pool together (SneakPeek, beyond the paper): to the
// ranker one offer among the others, so that services of every kind share the workers by
// urgency. What a granted worker runs is decided at that moment by a LookaheadPlanner, from
// everything that waits; nothing else of its plan is kept, so every arrival, completion and
// piece of evidence counts at once. A short circuit is taken at the last moment at which it
// is on time, when nothing better has come by then.
class GroupBatcher final : public Batcher {
 public:
  GroupBatcher(KeyId key, DelayBound delay) : delay_(delay) { offer_.key = key; }

  ApplicationQueue& queue() { return queue_; }
  const ApplicationQueue& queue() const { return queue_; }
  void learned(const Task& task, Evidence evidence, Time now, Decisions& out);
  // Adds waiting tasks to a batch of one of its variants that another batcher has bound, those
  // who planned for nothing better, so that it still ends by `limit`.
  void join_other(Batch& batch, Time limit, const LatencyTable& latency, Time now);

  void nominated(const Task& task, Time now, Decisions& out) override;
  bool withdrawn(const Task& task, Time now, Decisions& out) override;
  Answer granted(const Grant& grant, Time now, Decisions& out) override;
  void tick(Time now, Decisions& out) override;
  void set_latency(std::shared_ptr<const LatencyTable>, Time, Decisions&) override {}
  void set_delay_bound(DelayBound bound) override { delay_ = bound; }
  const Offer& offer() const override { return offer_; }
  Time next_wake() const override { return wake_; }
  uint64_t waiting_items() const override { return queue_.waiting().size(); }

 private:
  using Waiting = ApplicationQueue::Waiting;

  void update(Time now);
  void end_the_late(Time now, Decisions& out);
  bool knows_better(const Task& task);
  static bool is_worth_running(const GroupProblem& problem, const GroupSchedule& plan,
                               const GroupBatch& batch);
  bool short_circuits(const Waiting& w) const;
  Duration fastest(uint32_t application) const;
  Time last_moment(const Waiting& w) const;
  void bind(const GroupSchedule& plan, const GroupBatch& planned, WorkerId worker, Time start,
            Decisions& out);

  ApplicationQueue queue_;
  LookaheadPlanner planner_;
  DelayBound delay_;
  std::vector<ExpectedArrivals> expected_;
  std::vector<double> theta_;
  std::vector<bool> taken_;  // by place in the queue
  Offer offer_;
  Time wait_until_;  // nothing is worth starting before
  Time wake_ = Time::infinite();
  uint64_t epoch_ = 0;
};

}  // namespace fermata::policy
