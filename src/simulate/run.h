#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "model/latency_correction.h"
#include "policy/batch/min_tree.h"
#include "policy/scheduler.h"
#include "policy/tree/service_tree.h"
#include "simulate/adaptation.h"
#include "simulate/driver.h"
#include "simulate/examples.h"
#include "simulate/server_delays.h"

namespace fermata::simulate {

// One run in virtual time; for the files of the driver only.
class Run {
 public:
  Run(const Scenario& scenario, const RunOptions& options,
      std::unique_ptr<policy::Scheduler> scheduler);

  // INVALID_ARGUMENT where a stage makes too many items.
  absl::StatusOr<Result> go();

 private:
  struct Source {
    Arrivals arrivals{UniformArrivals(), 0, Time(), Random(0)};
    Duration slo;
    KeyId key;
    const SimulatedVariants* variants = nullptr;
    std::optional<Examples> examples;  // of a variants service
    const SimulatedEnsemble* ensemble = nullptr;
    const SimulatedPipeline* pipeline = nullptr;
    const Demand* demand = nullptr;
    Random random{0};                // of an ensemble's queries, of a variants service's deadlines
    Random drawn{0};                 // of mixed deadlines and items, and of what stages make
    uint32_t most_items = 1;         // of one task
    ServiceId service, parts;        // the tree's, the latter for requests of more items
    std::vector<size_t> members;     // sources, of one that is made of services
    std::vector<KeyId> answers;      // of a variants service or ensemble that is not
    std::vector<ServiceId> options;  // of a stage that is planned: the tree's, by variant

    const std::string& name() const;
    // Of a variants service or ensemble.
    const std::vector<SimulatedVariant>& models() const {
      return ensemble != nullptr ? ensemble->models : variants->variants;
    }
  };
  // A batch that a worker runs, or has been bound to it ahead: when it ends, and what of the tree
  // is in it.
  struct Running {
    Time start, end, told;  // the latter: when the policy is told of its end
    Duration delay;         // of its start
    KeyId key;
    uint32_t items = 0;
    bool load = false;
    std::vector<JobId> branches;
  };
  struct WorkerState {
    uint32_t type = 0;
    std::array<Running, 2> batches;
    uint32_t bound = 0;
  };
  // Of a model whose batches take longer or shorter than it is said.
  struct Drift {
    double factor = 1;
    std::shared_ptr<const MeasuredDrift> measured;  // instead, where it is there
    LatencyByType learned;                          // what the policy knows by now
    std::vector<LatencyCorrection> corrections;     // by worker type, as the server has them
    Time last_evidence;
  };
  // A request that has children, or is one: of a service, a stage of one, or a part.
  struct Branch {
    size_t source = 0;
    JobId parent;        // none: the root
    uint32_t child = 0;  // its number among the parent's
    KeyId key;           // of a stage's planned variant; none: the source's
    uint32_t items = 1;
    Time started, deadline;         // the latter is the root's
    bool measured = false;          // the root is, and somebody waits for it
    ModelResult* result = nullptr;  // where its batches and answer are counted
    bool has_parts = false;         // its children are parts of it, not members
    plan::Subset answered = 0;      // members that have
    bool gone = false;              // nobody waits for it any more
    double accuracy = 1;            // of what has been answered for it, as far as it is known
    policy::Task task;              // of a leaf
  };

  void add_models();
  void add_variants_services();
  void add_ensembles();
  void add_pipelines();
  void add_composites();
  void add_options(const Source& pipeline);
  static policy::ServiceInfo info_of(const Source& source, const std::vector<KeyId>& answers);
  void add_answers(Source& source);
  std::unique_ptr<policy::Chooser> chooser_of(const Source& source) const;
  KeyId add_key(policy::KeyInfo info, const std::vector<LatencyModel>& latency, uint32_t max_batch);
  KeyId add_variant(const SimulatedVariant& variant);
  void know(KeyId key, const std::string& name, size_t source);
  void add_source(Source source, double share, const ArrivalProcess& process,
                  const std::string& name);
  void add_workers();
  void step();
  void arrive(Time now);
  void end_batch(Time now);
  void act(Time now);
  void adapt(Time now);
  void serve_with(uint32_t workers, Time now);
  void charge(Time now);
  void count(bool in_time) { ++(in_time ? counts_.on_time : counts_.bad); }
  void start(policy::Batch& batch, Time now);
  // For as long as it really takes, and when it really starts. How late that is.
  Duration drift_away(policy::Batch& batch, const WorkerState& worker, Time now) const;
  void measure(const Running& batch, uint32_t worker_type, Time now);
  void publish(KeyId key, Drift& drift, Time now);
  void doubt(const policy::Task& rejected, Time now);
  void drop(const policy::Dropped& dropped, Time now);
  void stop_arrivals_at(Time end);
  void learn(Time now);
  void short_circuit(const policy::Task& task, Time now);
  void take(const policy::Task& task, const policy::Batch& batch, Time now);
  // Whether the answer is right, or how probably; counted where it is to be. Of a variant by its
  // name, null: of the evidence model itself; of a subset of base models.
  double judge(const policy::Task& task, const std::string* variant, Time finish,
               ModelResult* counted);
  double judge(const policy::Task& task, plan::Subset ran, plan::Subset planned, Time finish,
               ModelResult* counted);
  // Of a node whose members have answered.
  double judge(const Branch& node, Time now);
  static Duration draw_slo(Source& source);
  static uint32_t draw_items(const std::vector<Demand::Items>& from, Random& random);
  std::shared_ptr<const LatencyTable> fastest(const std::vector<KeyId>& keys) const;
  // Draws what a request is like; when that will be known, and of a query until when it is to be
  // answered.
  void draw(policy::Task& task, Source& source, Time now);
  void conclude(const policy::Concluded& concluded, Time now);
  void add_to_tree(Source& source, const std::vector<KeyId>& answers, uint32_t most_items);
  void nominate(policy::Task task, Source& source, Time now);
  // A request that the tree is told the end of: a node of the tree or a leaf's task.
  void begin(JobId id, Branch branch, Time deadline, bool begun, Time now);
  void act_on_tree(Time now);
  void start_branch(const policy::TreeDecisions::Started& started, Time now);
  void withdraw_branch(JobId id, Time now);
  void forget(JobId branch);
  void branch_ended(JobId id, policy::Ending how, uint32_t made, Time now);
  void count_end(ModelResult& result, const Branch& branch, policy::Ending how, Time now);
  uint32_t made_by_stage(const Branch& branch, uint32_t items);
  // Of a stage that has been answered: those after it that do not run for this request.
  std::vector<uint32_t> skipped_after(const Branch& own);
  Branch* branch(JobId id);  // null: a request of which the tree knows nothing
  // Where a task's batch and answer are counted, and whether they are.
  ModelResult& result_of(const policy::Task& task, const Branch* branch) {
    return branch != nullptr ? *branch->result : result_.models[source_of_[task.key.index()]];
  }
  bool measured(const policy::Task& task, const Branch* branch) const {
    return branch != nullptr ? branch->measured : measured(task.arrival);
  }
  void trace(TraceEvent::Kind kind, JobId job, KeyId key, uint32_t items, Time now, Time end);
  Time next_evidence() const {
    return evidence_.empty() ? Time::infinite() : evidence_.begin()->first.first;
  }
  const Source& source_of(const policy::Task& task) const {
    return sources_[source_of_[task.key.index()]];
  }
  // What the policy is told of a request's deadline, and when its client has to have the answer.
  Time planned(const Source& source, Time deadline, uint32_t items, Time now) const;
  Time deadline_of(const policy::Task& task) const;
  void count_answer(const policy::Task& task, Time answered, ModelResult* counted);
  // When the client has the answer that is there then. Parts of a request are for no client.
  Time replied(Time at, const Branch* own) const {
    return own != nullptr && !own->parent.is_none() ? at : at + delays_.reply(at);
  }
  Time next_wake() const { return std::min(scheduler_->next_wake(), tree_.next_wake()); }
  bool measured(Time arrival) const { return arrival >= from_ && arrival < to_; }
  KeyId place(KeyId key) const { return places_[key.index()]; }
  void mix(uint64_t value) { result_.hash = (result_.hash ^ value) * 0x100000001b3; }

  const Scenario& scenario_;
  const RunOptions& options_;
  std::unique_ptr<policy::Scheduler> scheduler_;
  const Time from_ = Time() + scenario_.warmup;
  const Time to_ = from_ + scenario_.duration;
  std::vector<Source> sources_;                          // as result_.models
  policy::MinTree next_arrival_;                         // by source
  std::vector<size_t> source_of_;                        // by key of a model or variants service
  std::vector<std::string> names_;                       // by key
  absl::flat_hash_map<JobId, const Example*> examples_;  // of waiting requests
  absl::flat_hash_map<JobId, const EnsembleExample*> queries_;
  std::map<std::pair<Time, JobId>, policy::Task> evidence_;  // when it will be known
  policy::ServiceTree tree_{[this] { return JobId(jobs_++); }};
  policy::TreeDecisions branching_;
  absl::flat_hash_map<JobId, Branch> branches_;
  std::vector<LatencyByType> latencies_;  // by key
  absl::flat_hash_map<KeyId, Drift> drifts_;
  ServerDelays delays_;
  absl::flat_hash_map<JobId, Time> deadlines_;  // of those that the policy knows another of
  uint64_t arrived_ = 0;                        // requests
  std::vector<WorkerState> workers_;
  policy::MinTree next_end_;  // by worker
  policy::Decisions decisions_, acting_;
  Adaptation adaptation_{scenario_};
  Adaptation::Counts counts_;  // of all requests, measured or not
  uint32_t serving_ = 0;
  Time charged_;                     // until when workers are counted
  uint64_t jobs_ = 0, unended_ = 0;  // of the measured ones
  Time last_arrival_ = Time::infinite();
  std::vector<KeyId> places_;  // by key, what traces call it
  uint32_t variants_ = 0, known_ = 0;
  Result result_;
  absl::Status failed_;  // why the run cannot go on
};

}  // namespace fermata::simulate
