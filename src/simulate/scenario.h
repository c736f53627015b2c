#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/latency.h"
#include "plan/pipeline/pipeline_problem.h"
#include "plan/variants/penalty.h"
#include "policy/ensemble/ensemble.h"
#include "policy/scheduler.h"
#include "policy/types.h"
#include "policy/variants/variants.h"
#include "simulate/arrivals.h"
#include "simulate/recorded_times.h"

namespace fermata::simulate {

// What the requests of one source ask for, beside their rate.
struct Demand {
  struct Slo {
    double share = 1;
    Duration slo;  // infinite: no deadline
  };
  struct Items {
    double share = 1;
    uint32_t items = 1;
  };
  std::vector<Slo> slos;     // drawn from; empty: the source's own
  std::vector<Items> items;  // the same; empty: one item each
};

// One model of a simulated cluster and the requests for it.
struct SimulatedModel {
  std::string name;
  std::vector<LatencyModel> latency;  // by worker type
  Duration slo;                       // infinite: none; of mixed ones the longest that is not
  Demand demand = {};
  double share = 1;  // of the cluster's rate, relative to the other models' shares
  uint32_t max_batch = 256;
  ArrivalProcess arrival;
  double static_mb = 0, dynamic_mb = 0;
  // How long batches really take, by `latency`; the policy learns it, as served.
  double drift = 1;
  std::shared_ptr<const MeasuredDrift> measured = {};  // then instead of `drift`
};

// A variant that may answer a variants service's requests.
struct SimulatedVariant {
  std::string name;
  std::optional<size_t> model;        // of Scenario::models, whose batches it then shares
  std::string service_name;           // not empty: another service of the scenario, of which
  size_t service = 0;                 // this is the source; then nothing but accuracies counts
  std::vector<LatencyModel> latency;  // by worker type; of a shared model: that one's
  uint32_t max_batch = 256;
  Duration load;
  double memory_mb = 0;
  double accuracy = 0;         // profiled
  std::vector<double> recall;  // by class

  int64_t memory_bytes() const;
};

// Whether some are services: then all are.
bool has_services(const std::vector<SimulatedVariant>& members);

// A request of recorded or made-up data: what its neighbours say, and who is right about it.
struct Example {
  uint32_t label = 0;
  std::vector<uint32_t> evidence;  // by class; empty: none comes
  std::vector<bool> correct;       // by variant
  bool short_circuit_correct = false;
};

// How often each class comes from then on, from the beginning of the warm-up.
struct LabelChange {
  Time at;
  std::vector<double> labels;
};

// Requests that any one of several variants may answer (SneakPeek).
struct SimulatedVariants {
  std::string name;
  Duration slo, slo_deviation;  // relative deadlines: their mean, normally spread about it
  Demand demand = {};
  double share = 1;
  ArrivalProcess arrival;
  plan::Penalty penalty;
  std::vector<double> prior;  // empty: not data-aware
  std::vector<SimulatedVariant> variants;
  std::optional<double> short_circuit;     // profiled accuracy of the evidence model's own answer
  Duration evidence_delay;                 // from a request's arrival until its evidence is known
  std::vector<double> labels;              // how often each class comes; empty: as in `examples`
  std::vector<LabelChange> label_changes;  // in the order of time
  // Drawn from, at least one of each class that comes. Of a pipeline's own: none, and variants are
  // right as often as they are profiled.
  std::vector<Example> examples;
};

// A query of recorded or made-up data: what is predicted of it, and which subsets are right.
struct EnsembleExample {
  policy::Difficulty difficulty;
  std::vector<bool> correct;  // by Subset; nobody is never right
};

// Queries that several base models answer together, or some of them (Schemble).
struct SimulatedEnsemble {
  std::string name;
  Duration slo, slo_most;  // relative deadlines are uniform between them
  Demand demand = {};
  double share = 1;
  ArrivalProcess arrival;
  std::vector<SimulatedVariant> models;      // base models; accuracy and recall mean nothing
  std::vector<std::vector<double>> utility;  // by bin and Subset, as policy::EnsembleInfo
  std::vector<double> bins;                  // share of the queries
  bool serve_all = false;
  plan::Subset fixed = 0;
  std::optional<Duration> score_delay;    // until the difficulty is known; none: it never is
  std::vector<EnsembleExample> examples;  // drawn from

  std::string subset_name(plan::Subset subset) const;  // models joined by +
};

// A stage of a pipeline: one of the scenario's services.
struct SimulatedStage {
  std::string name;
  std::string service_name;
  size_t service = 0;                // its source, see Scenario
  std::vector<uint32_t> after;       // earlier stages
  std::vector<Demand::Items> makes;  // how many items it makes of one; empty: one
  double when =
      1;  // of the requests that its first `after` has answered, the share that it runs for
};

// How the variants of a pipeline's stages are planned while it runs (IPA), with stages that share
// the workers: models, and services with variants that are models.
struct SimulatedAdapter {
  plan::PipelineProblem limits;  // weights and bounds; its rate, SLA and stages are not read
  Duration interval = Duration::seconds(10);  // whole seconds
  double quantile = 0.9, margin = 1;          // of the square-root forecast, on it
  bool variants = true;  // requests take those that are planned; else any, and workers are planned
};

// Requests that run through several services, one after another (IPA).
struct SimulatedPipeline {
  std::string name;
  Duration slo;
  Demand demand;
  double share = 1;
  ArrivalProcess arrival;
  std::vector<SimulatedStage> stages;  // each after those that it names
  std::optional<SimulatedAdapter> adapter = {};
};

struct WorkerGroup {
  std::string type;
  uint32_t count = 1;
  double memory_mb = 0;  // 0: not limited
  // They come and go, as the load asks: at least so many, at most `count`.
  std::optional<uint32_t> least = {};
  Duration apply = {};  // from such a decision, or a plan, until it is in force
};

// Requests a second.
inline constexpr double kLowestRate = 1e-6, kHighestRate = 1e8;

// A cluster that need not exist (the contract's document). Requests that arrive
// in [warmup, warmup + duration) are measured and followed to their end. Its sources are its
// models, then its variants services, ensembles and pipelines.
struct Scenario {
  uint64_t seed = 1;
  Duration warmup = Duration::seconds(2), duration = Duration::seconds(20);
  std::string scheduler = "fermata";
  std::vector<WorkerGroup> workers;  // worker type i is workers[i].type
  policy::DelayBound network;
  RecordedDelays delays;  // of a recording, where there are some instead of `network`
  std::vector<SimulatedModel> models;
  std::vector<SimulatedVariants> variants;
  std::vector<SimulatedEnsemble> ensembles;
  std::vector<SimulatedPipeline> pipelines;
  policy::ServiceSettings groups;
  double rate_rps = 0;

  uint32_t worker_count() const;
  // Requests a second of a model or variants service with this share, at this scenario's rate.
  double rate_of(double share) const;
  // What the models leave of a worker's memory for what variants services choose from; models stay
  // resident, what they need to run included. Not limited: kUnlimitedMemory.
  int64_t bytes_for_variants(const WorkerGroup& group) const;
  // What the scheduler would have to do and does not ("serves ensembles"); empty: nothing.
  std::string_view missing_in(const policy::Scheduler& scheduler) const;
  // Where the models, or a variant beside them, do not fit into a worker's memory: the
  // constraint, else empty.
  std::string memory_violation() const;

 private:
  double models_mb() const;
};

}  // namespace fermata::simulate
