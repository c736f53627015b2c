#pragma once

#include <deque>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "plan/ensemble/ensemble_planner.h"
#include "policy/ensemble/ensemble_queries.h"
#include "policy/kept_decisions.h"
#include "policy/scheduler.h"

namespace fermata::policy {

// How queries get their base models, as published (Schemble, sections III, VI and VIII).
enum class EnsembleMethod : uint8_t {
  kSchemble,    // Algorithm 1 over all that wait
  kGreedyEdf,   // the best subset that is still on time, query by query: by deadline,
  kGreedyFifo,  // by arrival,
  kGreedySjf,   // the easiest first
  kOriginal,    // every base model
  kStatic,      // the same subset for all, on replicas of its models
  kSelected,    // what a selector sees in the query: dynamic selection or gating
};

// Ensembles as published: every base model has a worker of its own (where there are fewer
// workers, models share them in turn) that runs one task at a time.
//
// The first four methods keep queries in a buffer and plan whenever something arrives, is
// predicted or ends while a base model is idle; tasks go out to idle models only, so that what
// arrives later still counts. Tasks that have gone out stay; the others are planned anew, worth
// what they add. A query that finds models idle gets those at once. At most kMostPlanned
// queries, the most urgent, are planned at a time, fewer where there are many subsets; a decision
// takes less than a millisecond.
//
// The last three put a query's tasks into the queues of its models at once, and refuse it where
// it would be late; workers beyond the models run replicas of the busiest.
//
// A service of one model counts as an ensemble of one. Its tasks may have several items: they
// are not planned, but start by deadline.
class EnsembleScheduler final : public Scheduler {
 public:
  static constexpr size_t kMostPlanned = 64, kMostSubsets = 4096;  // of all that are planned

  // `delta`: of the plans of kSchemble, see plan::EnsembleProblem.
  EnsembleScheduler(EnsembleMethod method, double delta);

  KeyId add_key(KeyInfo info) override;
  void remove_key(KeyId key) override;
  void update_latency(KeyId key, LatencyByType latency, Time now, Decisions& out) override;
  void set_delay_bound(DelayBound bound) override;
  WorkerId add_worker(Time now, Decisions& out, uint32_t type, int64_t memory_bytes) override;
  bool serves(Kind kind) const override { return kind == Kind::kEnsemble; }
  KeyId add_service(const ServiceInfo& info) override;
  void learned(const Task& task, const Estimate& estimate, Time now, Decisions& out) override;

  void nominate(const Task& task, Time now, Decisions& out) override;
  bool withdraw(const Task& task, Time now, Decisions& out) override;
  void ended(const BatchEnd& batch, Time now, Decisions& out) override;
  void tick(Time now, Decisions& out) override;
  Time next_wake() const override { return queries_.next_moment(); }
  uint64_t waiting_items(KeyId key) const override { return queries_.waiting_items(key); }
  std::vector<Problem> last_problems() const override { return kept_.newest<Problem>(); }

 private:
  using Query = EnsembleQueries::Query;
  struct Queued {
    JobId job;
    KeyId model;
    Duration run;
  };
  struct Queue {  // of one worker
    std::deque<Queued> tasks;
    Duration runs;  // how long all of it runs
  };

  bool plans() const { return method_ < EnsembleMethod::kOriginal; }
  void deploy();
  WorkerId home(KeyId model) const { return homes_.at(model).front(); }
  bool is_idle(WorkerId worker) const { return pool_.worker(worker).running == 0; }
  bool idle(KeyId model) const { return is_idle(home(model)); }
  bool any_idle(uint32_t ensemble) const;
  Time end_of(WorkerId worker, Time now) const;

  Duration run_of(const Query& query, plan::Subset subset) const;
  void start_at_once(Query& query, Time now, Decisions& out);
  void replan(Time now, Decisions& out);
  void plan(uint32_t ensemble, Time now, Decisions& out);
  void start_by_deadline(uint32_t ensemble, Time now, Decisions& out);
  void read_problem(uint32_t ensemble, Time now);
  void serve_the_late(uint32_t ensemble, const plan::EnsemblePlan& plan);
  void release(Query& query, Time now, Decisions& out);
  void dispatch(Query& query, plan::Subset subset, Time now, Decisions& out);
  void replace(JobId failed, Time now, Decisions& out);
  void serve_queue(size_t worker, Time now, Decisions& out);
  void start(Query& query, KeyId model, WorkerId worker, Time now, Decisions& out);

  const EnsembleMethod method_;
  DelayBound delay_;
  PoolView pool_;
  EnsembleQueries queries_{pool_, delay_, /*doubt=*/0, /*waits_for_plan=*/true};
  plan::EnsemblePlanner planner_;
  plan::EnsembleTask task_;  // the last one that was planned
  KeptDecisions<plan::EnsembleTask> kept_;
  std::vector<Query*> planned_;  // by query of task_
  std::vector<Duration> backlog_;
  std::vector<KeyId> models_;  // in the order in which they came
  absl::flat_hash_map<KeyId, std::vector<WorkerId>> homes_;
  std::vector<Queue> queues_;  // by worker
};

}  // namespace fermata::policy
