#pragma once

#include <memory>
#include <vector>

#include "estimate/rate.h"
#include "policy/kept_decisions.h"
#include "policy/shared_batcher.h"
#include "policy/variants/variants_lookahead.h"
#include "policy/variants/variants_queue.h"

namespace fermata::policy {

// The batcher of all services of a pool together (SneakPeek, beyond the paper): to the
// ranker one offer among the others, so that services of every kind share the workers by
// urgency. What a granted worker runs is decided at that moment by a VariantsLookahead, from
// everything that waits; nothing else of its plan is kept, so every arrival, completion and
// piece of evidence counts at once. A short circuit is taken at the last moment at which it
// is on time, when nothing better has come by then.
//
// Apart from the decisions, O(log waiting) an event. A decision looks at a bounded number of
// tasks, those whose deadlines are nearest, and at a bounded number of workers, which have to do
// with their share of what waits and comes.
class VariantsBatcher final : public SharedBatcher {
 public:
  VariantsBatcher(KeyId key, DelayBound delay, const PoolView& pool,
                  const ServiceSettings& settings);

  void add_service(KeyId key, const ServiceInfo& info) override;
  void remove_service(KeyId key) override { queue_.remove(key); }
  // Where that changes how fast a service is: O(waiting * log waiting).
  bool latency_changed(KeyId key, Time now) override;
  void learned(const Task& task, const Estimate& estimate, Time now, Decisions& out) override;
  // Those who planned for nothing better join.
  void join_other(Batch& batch, Time limit, const LatencyTable& latency, Time now) override;
  // Of others with deadlines: the worker time that they take lately is not to be had. What they
  // lose is the least that a worker second costs.
  void bound(const Batch& batch, bool own, Time now) override;
  uint64_t waiting_items(KeyId key) const override { return queue_.waiting_items(key); }
  void add_problems(std::vector<Problem>& to) const override { kept_.copy_to(to); }

  void nominated(const Task& task, Time now) override;
  bool withdrawn(const Task& task) override { return queue_.erase(task); }
  void tick(Time now, Decisions& out) override;
  Time next_wake() const override { return wake_; }
  // All have one item.
  uint64_t waiting_items() const override { return queue_.waiting().size(); }

 private:
  using Waiting = VariantsQueue::Waiting;

  bool decide(const Grant& grant, Time start, Time now, Decisions& out) override;
  void update(Time now) override;
  Outlook expected(Time now) override { return queue_.outlook(now); }
  void offer_best_effort(Time now);
  Time urgency(Time now) const;
  void end_the_late(Time now, Decisions& out);
  bool knows_better(const Waiting& w);
  static bool is_worth_running(const plan::GroupProblem& problem, const plan::GroupSchedule& plan,
                               const plan::GroupBatch& batch);
  bool short_circuits(const Waiting& w) const;
  bool waits_on(const Waiting& w, Time now);
  Time last_moment(const Waiting& w) const;
  void bind(const plan::GroupProblem& problem, const plan::GroupSchedule& plan,
            const plan::GroupBatch& planned, WorkerId worker, Decisions& out);

  const ServiceSettings settings_;
  VariantsQueue queue_;
  VariantsLookahead planner_;
  KeptDecisions<plan::GroupProblem> kept_;
  std::vector<uint32_t> taken_;  // requests of the batch that is bound
  estimate::RateMeter others_;   // microseconds of workers
  Time wake_ = Time::infinite();
};

}  // namespace fermata::policy
