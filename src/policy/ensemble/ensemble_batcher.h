#pragma once

#include <vector>

#include "policy/batcher.h"
#include "policy/ensemble/ensemble_lookahead.h"
#include "policy/ensemble/ensemble_queries.h"
#include "policy/pool/declined_types.h"

namespace fermata::policy {

// The batcher of all ensembles of a pool together: to the ranker one offer among the others.
// What a granted worker runs, and so which models answer which query, is decided at that
// moment by an EnsembleLookahead; nothing else of its plan is binding, so every arrival,
// completion and prediction counts at once.
class EnsembleBatcher final : public Batcher {
 public:
  EnsembleBatcher(KeyId key, DelayBound delay) : delay_(delay), queries_(delay) {
    offer_.key = key;
  }

  EnsembleQueries& queries() { return queries_; }
  const EnsembleQueries& queries() const { return queries_; }
  void add_worker(uint32_t type, uint32_t running);
  void scored(const Task& task, const Difficulty& difficulty, Time now, Decisions& out);
  // Of every batch of the pool, and of its end.
  void bound(const Batch& batch, Time now);
  void freed(WorkerId worker, Time now, Decisions& out);
  // Adds tasks to a batch of a base model that another batcher has bound, so that it still ends
  // by `limit`.
  void join_other(Batch& batch, Time limit, const LatencyTable& latency, Time now);

  void nominated(const Task& task, Time now, Decisions& out) override;
  bool withdrawn(const Task& task, Time now, Decisions& out) override;
  Answer granted(const Grant& grant, Time now, Decisions& out) override;
  void tick(Time now, Decisions& out) override;
  void set_latency(LatencyByType, Time, Decisions&) override {}
  void set_delay_bound(DelayBound bound) override;
  const Offer& offer() const override { return offer_; }
  Time next_wake() const override { return std::min(queries_.next_moment(), declined_.until()); }
  uint64_t waiting_items() const override { return queries_.by_deadline().size(); }

 private:
  void update(Time now);

  DelayBound delay_;
  EnsembleQueries queries_;
  EnsembleLookahead planner_;
  std::vector<Time> free_at_;  // by worker
  Offer offer_;
  DeclinedTypes declined_;
  uint64_t epoch_ = 0;
};

}  // namespace fermata::policy
