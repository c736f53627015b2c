#pragma once

#include <vector>

#include "estimate/rate.h"
#include "policy/ensemble/ensemble_lookahead.h"
#include "policy/ensemble/ensemble_queries.h"
#include "policy/kept_decisions.h"
#include "policy/shared_batcher.h"

namespace fermata::policy {

// The batcher of all ensembles of a pool together: to the ranker one offer among the others.
// What a granted worker runs, and so which models answer which query, is decided at that
// moment by an EnsembleLookahead; nothing else of its plan is binding, so every arrival,
// completion and prediction counts at once.
class EnsembleBatcher final : public SharedBatcher {
 public:
  EnsembleBatcher(KeyId key, DelayBound delay, const PoolView& pool)
      : SharedBatcher(key, delay, pool), queries_(pool, delay) {}

  void add_service(KeyId key, const ServiceInfo& info) override {
    queries_.add_ensemble(key, std::get<EnsembleInfo>(info));
  }
  void remove_service(KeyId key) override { queries_.remove(key); }
  void learned(const Task& task, const Estimate& estimate, Time now, Decisions& out) override;
  void join_other(Batch& batch, Time limit, const LatencyTable& latency, Time now) override;
  void bound(const Batch& batch, bool own, Time now) override;
  bool ended(const BatchEnd& batch, Time now, Decisions& out) override;
  uint64_t waiting_items(KeyId key) const override { return queries_.waiting_items(key); }
  void add_problems(std::vector<Problem>& to) const override { kept_.copy_to(to); }

  void nominated(const Task& task, Time now) override;
  bool withdrawn(const Task& task) override { return queries_.withdraw(task); }
  void tick(Time now, Decisions& out) override;
  void set_delay_bound(DelayBound bound) override;
  // What has its answers ends at once, unless the worker that is free now brings it more.
  Time next_wake() const override {
    const Time finished = queries_.any_finished() ? freed_at_ : Time::infinite();
    return std::min({finished, queries_.next_moment(), declined_.until(), asks_again()});
  }
  uint64_t waiting_items() const override { return queries_.by_deadline().size(); }

 private:
  bool decide(const Grant& grant, Time start, Time now, Decisions& out) override;
  void update(Time now) override;
  Outlook expected(Time now) override { return queries_.outlook(now); }
  // What this grant's decision is made from. O(queries and workers of it).
  void read_problem(WorkerId worker, Time start, Time now, plan::PoolProblem& problem);
  void read_queries(plan::PoolProblem& problem);
  void read_ensembles(plan::PoolProblem& problem);

  EnsembleQueries queries_;
  EnsembleLookahead planner_;
  std::vector<EnsembleQueries::Query*> problem_queries_;  // of the last decision
  std::vector<KeyId> model_keys_;                         // of it
  KeptDecisions<plan::PoolProblem> kept_;
  uint32_t decisions_ = 0;
  // The utility that queries ended without, and the worker time that this takes.
  estimate::RateMeter lost_, missing_;
  Time freed_at_;  // the last worker that ran some of them
};

}  // namespace fermata::policy
