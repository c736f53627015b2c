#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "policy/batch/min_tree.h"
#include "policy/scheduler.h"
#include "simulate/driver.h"
#include "simulate/examples.h"

namespace fermata::simulate {

// One run in virtual time; for the files of the driver only.
class Run {
 public:
  Run(const Scenario& scenario, const RunOptions& options,
      std::unique_ptr<policy::Scheduler> scheduler);

  Result go();

 private:
  struct Source {
    Arrivals arrivals{UniformArrivals(), 0, Time(), Random(0)};
    Duration slo;
    KeyId key;
    const SimulatedApplication* application = nullptr;
    std::optional<Examples> examples;  // of an application
    const SimulatedEnsemble* ensemble = nullptr;
    Random random{0};  // of an ensemble's queries, of an application's deadlines
  };
  // When each bound batch ends; the second is one that was bound ahead.
  struct WorkerState {
    std::array<Time, 2> ends;
    uint32_t bound = 0;
  };

  void add_models();
  void add_applications();
  void add_ensembles();
  KeyId add_key(policy::KeyInfo info, const std::vector<LatencyModel>& latency, uint32_t max_batch);
  KeyId add_variant(const SimulatedVariant& variant);
  void know(KeyId key, const std::string& name);
  void add_source(Source source, double share, const ArrivalProcess& process,
                  const std::string& name);
  void add_workers();
  void step();
  void arrive(Time now);
  void end_batch(Time now);
  void act(Time now);
  void start(const policy::Batch& batch, Time now);
  void drop(const policy::Task& task, Time now);
  void arrive_with_example(const policy::Task& task, Source& source, Time now);
  void learn(Time now);
  void short_circuit(const policy::Task& task, Time now);
  void take(const policy::Task& task, const policy::Batch& batch, Time now);
  void judge(const policy::Task& task, KeyId variant, Time finish);
  static Duration draw_slo(Source& source);
  policy::Task ensemble_query(const policy::Task& task, Source& source, Time now);
  void conclude(const policy::Concluded& concluded, Time now);
  Time next_evidence() const {
    return evidence_.empty() ? Time::infinite() : evidence_.begin()->first.first;
  }
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
  std::vector<size_t> source_of_;                        // by key of a model or application
  std::vector<std::string> names_;                       // by key
  absl::flat_hash_map<JobId, const Example*> examples_;  // of waiting requests
  absl::flat_hash_map<JobId, const EnsembleExample*> queries_;
  std::map<std::pair<Time, JobId>, policy::Task> evidence_;  // when it will be known
  std::vector<WorkerState> workers_;
  policy::MinTree next_end_;  // by worker
  policy::Decisions decisions_;
  uint64_t jobs_ = 0, unended_ = 0;  // of the measured ones
  std::vector<KeyId> places_;        // by key, what traces call it
  uint32_t variants_ = 0, known_ = 0;
  Result result_;
};

}  // namespace fermata::simulate
