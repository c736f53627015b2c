#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "estimate/co_arrivals.h"
#include "plan/ensemble/pool_problem.h"
#include "policy/ensemble/ensemble.h"
#include "policy/pool/service_demand.h"
#include "policy/pool/view.h"
#include "policy/scheduler.h"
#include "policy/types.h"

namespace fermata::policy {

// The queries of every ensemble of a pool that have not ended, and which of their base models
// wait, run, have answered or have failed. Decides nothing but when a query has ended. What
// concerns one query takes O(log queries).
class EnsembleQueries {
 public:
  struct Query {
    Task task;
    uint32_t ensemble = 0;
    const std::vector<double>* utility = nullptr;  // a row of the ensemble's
    std::optional<Difficulty> difficulty;
    plan::Subset planned = 0;  // is to answer it; running and done are part of it
    plan::Subset running = 0, done = 0, failed = 0;
    plan::Subset away = 0;    // cannot run now, and may later
    plan::Subset wanted = 0;  // see Concluded
    bool withdrawn = false;   // nobody wants the answer any more

    plan::Subset had() const { return running | done; }
    plan::Subset closed() const { return had() | failed | away; }
    plan::Subset pending() const { return planned & ~closed(); }
    // What `more` adds to what it will have; negative where a profile is not monotone.
    double gain(plan::Subset more) const { return (*utility)[had() | more] - (*utility)[had()]; }
  };
  struct Before {
    using is_transparent = void;
    bool operator()(const Query* a, const Query* b) const {
      const Task &s = a->task, &t = b->task;
      return s.deadline != t.deadline ? s.deadline < t.deadline : s.job < t.job;
    }
    bool operator()(const Query* q, Time deadline) const { return q->task.deadline < deadline; }
    bool operator()(Time deadline, const Query* q) const { return deadline < q->task.deadline; }
  };
  using ByDeadline = absl::btree_set<Query*, Before>;  // then by job
  struct Ensemble {
    KeyId key;
    EnsembleInfo info;  // but for its utility, which is here:
    // By bin and Subset; and, last, over all bins as often as they come.
    std::shared_ptr<const plan::PoolProblem::Utilities> utility;
    ServiceDemand demand;
    estimate::CoArrivals co_arrivals;  // of a query, within an SLO
    ByDeadline by_deadline;            // of its own
    uint64_t items = 0;                // of them, and of withdrawn ones

    plan::Subset all() const { return (plan::Subset{1} << info.models.size()) - 1; }
  };

  // A prediction may be wrong: `doubt` of what a subset is worth is what it is worth to any query.
  // Queries of ensembles that serve all end at their deadline if they have an answer, or wait for
  // what was planned for them beyond it.
  EnsembleQueries(const PoolView& pool, DelayBound delay, double doubt = 0.1,
                  bool waits_for_plan = false)
      : pool_(pool), delay_(delay), doubt_(doubt), waits_for_plan_(waits_for_plan) {}

  void add_ensemble(KeyId key, const EnsembleInfo& info);  // the pool knows its models' keys
  void remove(KeyId key);
  bool is_ensemble(KeyId key) const { return ensemble_of_.contains(key); }
  void set_delay_bound(DelayBound bound) { delay_ = bound; }

  Query& insert(const Task& task, Time now);
  // Null where it has ended.
  Query* find(JobId job);
  // The model, by its key, is away no longer. False where it was not, or the query has ended.
  bool returned(const Task& task, KeyId model);
  // False where it has ended or it is known already.
  bool scored(const Task& task, const Difficulty& difficulty);
  // Whether it was there and has gone: where base models run for it, it goes when they have ended.
  bool withdraw(const Task& task);
  // Which models are to answer it; what runs for it already, or has answered, is among them.
  void plan(Query& query, plan::Subset planned);
  // Of every batch that any of the workers gets, whosever tasks it has, before the pool's view has
  // it: those of ensembles run from now on. A task of the batch's own key is not of an ensemble: if
  // it was inserted, it ends.
  void bind(const Batch& batch);
  // Before the pool's view knows that the batch has: its queries have these answers.
  void ended(const BatchEnd& batch, Decisions& out);
  // Ends those for whom nothing is left to wait for. To be called when new plans have been made
  // for what was freed.
  void conclude_finished(Decisions& out);
  bool any_finished() const { return !maybe_finished_.empty(); }
  // It ends: dropped if it was in no batch, or concluded with what there is. `wait` and `run` are
  // what it would have met. No model may run for it.
  void give_up(Query& query, Duration wait, Duration run, Decisions& out);
  // Ends those whose deadline has come with some answer, and gives up those that can have none.
  void conclude_late(Time now, Decisions& out);
  // Of those that have ended since it was asked for: the utility that more of the models would have
  // added, and the worker seconds that these take. Models too slow for the deadline do not count.
  struct Lost {
    double utility = 0, seconds = 0;
  };
  Lost take_lost() { return std::exchange(lost_, {}); }
  Time next_moment() const { return moments_.empty() ? Time::infinite() : moments_.begin()->first; }

  // Of all ensembles; withdrawn ones are not among them. Those of them that another model could
  // still answer, and of these those that none has answered or runs for.
  const ByDeadline& by_deadline() const { return by_deadline_; }
  const ByDeadline& open() const { return open_; }
  const ByDeadline& unanswered() const { return unanswered_; }
  size_t urgent() const { return urgent_; }  // of the unanswered, with a deadline
  const Ensemble& ensemble(uint32_t at) const { return ensembles_[at]; }
  size_t ensembles() const { return ensembles_.size(); }  // removed ones have no key
  uint64_t waiting_items(KeyId key) const;
  // Of all ensembles, with the model of each that takes least. O(ensembles * models).
  Outlook outlook(Time now) const;
  // Of its models, how long that takes which takes least, on any type. O(models * types).
  Duration fastest(const Ensemble& ensemble, uint32_t items = 1) const;
  const LatencyTable& slowest(KeyId model) const { return *pool_.info(model).latency.slowest(); }

 private:
  struct Entry {
    Query query;
    Time moment = Time::infinite();  // as in moments_
  };
  // Which of the worker's batches, as the view counts them.
  using BatchId = std::pair<WorkerId, uint64_t>;
  struct Running {
    KeyId model;
    std::vector<JobId> queries;
  };
  void place(Query& query);  // into open_ and unanswered_, or out of them
  void set_unanswered(Query& query, bool unanswered);
  void set_moment(Entry& entry);
  Time moment_of(const Query& query) const;
  void unanswered(const Running& running, JobId job, plan::Subset Query::*as);
  void conclude(Entry& entry, Decisions& out, bool at_last = false);
  void count_lost(const Query& query);
  void stop_waiting(Query& query);
  void forget(Entry& entry);

  const PoolView& pool_;
  DelayBound delay_;
  const double doubt_;
  const bool waits_for_plan_;
  absl::flat_hash_map<KeyId, uint32_t> ensemble_of_;
  std::deque<Ensemble> ensembles_;  // queries point into them
  absl::flat_hash_map<JobId, std::unique_ptr<Entry>> queries_;
  ByDeadline by_deadline_, open_, unanswered_;
  size_t urgent_ = 0;
  std::vector<JobId> maybe_finished_;
  Lost lost_;
  absl::btree_set<std::pair<Time, JobId>> moments_;
  absl::flat_hash_map<BatchId, Running> running_;  // batches that have queries
};

}  // namespace fermata::policy
