#pragma once

#include <memory>
#include <vector>

#include "estimate/rate.h"
#include "policy/batcher.h"
#include "policy/kept_decisions.h"
#include "policy/pool/declined_types.h"
#include "policy/variants/application_queue.h"
#include "policy/variants/lookahead.h"

namespace fermata::policy {

// The batcher of all applications of a pool together (SneakPeek, beyond the paper): to the
// ranker one offer among the others, so that services of every kind share the workers by
// urgency. What a granted worker runs is decided at that moment by a LookaheadPlanner, from
// everything that waits; nothing else of its plan is kept, so every arrival, completion and
// piece of evidence counts at once. A short circuit is taken at the last moment at which it
// is on time, when nothing better has come by then.
//
// Apart from the decisions, O(log waiting) an event. A decision looks at a bounded number of
// tasks, those whose deadlines are nearest, and at a bounded number of workers, which have to do
// with their share of what waits and comes.
class GroupBatcher final : public Batcher {
 public:
  GroupBatcher(KeyId key, DelayBound delay);

  ApplicationQueue& queue() { return queue_; }
  const ApplicationQueue& queue() const { return queue_; }
  const KeptDecisions<plan::GroupProblem>& kept() const { return kept_; }
  void learned(const Task& task, Evidence evidence, Time now, Decisions& out);
  // Adds waiting tasks to a batch of one of its variants that another batcher has bound, those
  // who planned for nothing better, so that it still ends by `limit`.
  void join_other(Batch& batch, Time limit, const LatencyTable& latency, Time now);

  // A batch of others was bound: the worker time that they take lately is not to be had.
  void others_run(const Batch& batch, Time now);

  // What the next grant is used for ends by `limit`, as far as fewer tasks make it: until then
  // those of others who may come can wait for the worker.
  void end_by(Time limit) { limit_ = limit; }
  void add_worker(uint32_t type, int64_t memory_bytes);

  void nominated(const Task& task, Time now, Decisions& out) override;
  bool withdrawn(const Task& task, Time now, Decisions& out) override;
  Answer granted(const Grant& grant, Time now, Decisions& out) override;
  void tick(Time now, Decisions& out) override;
  void set_latency(LatencyByType, Time, Decisions&) override {}
  // The table of one of its variants has changed: O(waiting * log waiting).
  void variant_latency_changed(Time now);
  void set_delay_bound(DelayBound bound) override { delay_ = bound; }
  const Offer& offer() const override { return offer_; }
  Time next_wake() const override { return wake_; }
  // All have one item.
  uint64_t waiting_items() const override { return queue_.waiting().size(); }

 private:
  using Waiting = ApplicationQueue::Waiting;

  void update(Time now);
  void offer_patient(Time now);
  Time urgency(Time now) const;
  void end_the_late(Time now, Decisions& out);
  bool knows_better(const Waiting& w);
  static bool is_worth_running(const plan::GroupProblem& problem, const plan::GroupSchedule& plan,
                               const plan::GroupBatch& batch);
  bool short_circuits(const Waiting& w) const;
  Time last_moment(const Waiting& w) const;
  uint32_t fitting(const plan::GroupProblem& problem, const plan::GroupBatch& planned) const;
  void bind(const plan::GroupProblem& problem, const plan::GroupSchedule& plan,
            const plan::GroupBatch& planned, WorkerId worker, Decisions& out);

  ApplicationQueue queue_;
  LookaheadPlanner planner_;
  KeptDecisions<plan::GroupProblem> kept_;
  DelayBound delay_;
  std::vector<uint32_t> taken_;  // requests of the batch that is bound
  estimate::RateMeter others_;   // microseconds of workers
  Offer offer_;
  DeclinedTypes declined_;
  Time limit_ = Time::infinite();
  Time wake_ = Time::infinite();
  uint64_t epoch_ = 0;
};

}  // namespace fermata::policy
