#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/time.h"
#include "estimate/aggregation.h"
#include "operators/operator.h"
#include "plan/pipeline/base_allocation_document.h"
#include "plan/pipeline/pipeline_problem.h"
#include "plan/variants/penalty.h"
#include "policy/scheduler.h"
#include "policy/stream/stream_sessions.h"
#include "policy/variants/variants.h"

namespace fermata::engine {

class Nursery;        // engine/confine/nursery.h
class Observer;       // engine/observer.h
class RemoteWorkers;  // engine/execute/executor.h

// Paced: runs models and keeps their answers back until the time that profiles say has passed.
enum class ExecutorKind : uint8_t { kOnnxRuntime, kEmulated, kPaced };

// Where models run: on threads of the server, or in processes of their own, whose end is theirs.
enum class Isolation : uint8_t { kThread, kProcess };

// What becomes of models where not all of them fit into a worker's memory: each lives in one
// sub-cluster, or workers load what they need and drop the least recently used.
enum class Residency : uint8_t { kPlaced, kOnDemand };

// Workers that are alike.
struct WorkerType {
  std::string name = "default";
  uint32_t count = 1;            // at least 1
  std::string provider = "cpu";  // of ONNX Runtime: cpu, cuda, tensorrt
  uint32_t threads = 1;          // intra-op threads of each worker
  bool remote = false;           // other hosts bring them, so many at most
  std::string openvino;  // OpenVINO's library, or a folder with it; empty: where it usually is
  // Of each worker; what does not fit into all of them is divided over sub-clusters.
  double memory_mb = std::numeric_limits<double>::infinity();
};

// Letters, digits, '-' and '_': it stands in the name of a profile.
bool is_worker_type_name(std::string_view name);

struct WorkerOptions {
  ExecutorKind executor = ExecutorKind::kOnnxRuntime;
  Residency residency = Residency::kPlaced;
  // A run that takes longer, and 20 times as long as is expected of it, is stopped.
  Duration run_limit = Duration::seconds(10);
  // Inputs of a batch that are copied at a time: a larger batch runs in several pieces.
  uint64_t batch_bytes = uint64_t{64} << 20;
  Isolation isolation = Isolation::kProcess;
  // Workers of a type that use the same process of a model; none: all of those with one thread,
  // one of others.
  std::optional<uint32_t> per_process;
  bool standby = false;  // each process has another beside it, loaded, for when it dies
  std::optional<double> process_memory_mb;  // that each may write to; none: as trial_memory_mb
  // Processor time that each may take for a batch, with all its threads; then it is killed.
  std::optional<Duration> process_processor;
  std::string program = "/proc/self/exe";  // the fermata command, which those processes run
  std::shared_ptr<Nursery> nursery;        // copies it for each, and for each trial; null: nothing
  std::string python = "python3";          // of Python models that name no other
  // That a model may take when it is tried in a child process; none: by the size of its files.
  std::optional<double> trial_memory_mb;
  // At least one, with a name each; several where workers differ (SneakPeek, section 7). Of
  // idle workers that can end a batch in time those of the first type are taken first.
  std::vector<WorkerType> types = {WorkerType{}};
  // Set: of the only type's workers so many serve at least, and more while the load asks for it.
  std::optional<uint32_t> least;
  std::shared_ptr<RemoteWorkers> remote;  // set where a type is

  uint32_t count() const;          // of all types
  double least_memory_mb() const;  // that any worker has
  bool all_remote() const;         // no worker is of this host
};

// Where models live when memory is short (Symphony, section 4.7 and appendix A); the
// names are those of `fermata plan placement`.
struct PlacementOptions {
  std::optional<uint32_t> subclusters;  // none: as few as hold all models
  Duration epoch = Duration::seconds(30);
  // Of the moves of one epoch, each of which costs 2; first loads come on top of it.
  double max_change_cost = 4;
  double max_rate_rps = 1e6;  // of one sub-cluster's scheduler
  double weight = 1;          // of memory against rate
  // Models stay where they are unless the objective falls by more than this.
  double min_gain = 0.05;
};

// Where the evidence of a service's requests comes from (SneakPeek 4.2).
struct EvidenceSource {
  std::string features, labels;   // training data: .npy files
  std::string input;              // tensor of a request; empty: its first
  std::string extractor, output;  // model that makes features of it, if any, and its output
  uint32_t k = 5;                 // neighbours, or votes of a classifier
  bool scores = false;            // features are a classifier's scores by class
};

// Inputs of which the class is known: .npy files, [n, ...] and [n].
struct LabelledFiles {
  std::string features, labels;
};

// What makes a service one of kind `variants`: any of these models may answer it.
struct VariantsOptions {
  std::vector<std::string> models;  // at least one, with the same inputs and outputs
  // Those of them that are services, and how often they are right.
  std::map<std::string, double> services;
  std::map<std::string, double> accuracy;  // of models, where the options say it
  plan::Penalty penalty;
  std::vector<double> prior;  // by class; empty: 0.5 each
  // Above 0, without a prior: as often as the classes are among the evidence's points, so many
  // requests together.
  double prior_requests = 0;
  bool data_aware = true, short_circuit = true;
  std::optional<EvidenceSource> evidence;
  // What variants whose profile does not say how often they are right are tried on.
  std::optional<LabelledFiles> labelled;
};

// What is predicted of an ensemble's queries: how difficult they are, by which measure.
enum class DifficultyScore : uint8_t { kNone, kDiscrepancy, kAgreement };
// What picks base models by a query's data alone, for the scheduler `selected`.
enum class Selector : uint8_t { kNone, kDynamicSelection, kGating };

// What makes a service one of kind `ensemble`: these models answer it together, or some of them.
struct EnsembleOptions {
  std::vector<std::string> models;  // base models, at least one
  std::set<std::string> services;   // those of them that are services
  estimate::Aggregation aggregation = estimate::Aggregation::kAverage;
  std::vector<double> weights;  // by model, of a weighted aggregation
  // The meta-classifier of stacking, and its output; empty: its first.
  std::string meta, meta_output;
  std::string output;   // of the base models; empty: their first
  std::string profile;  // folder that `fermata difficulty fit` wrote
  DifficultyScore score = DifficultyScore::kNone;
  std::string predictor, predictor_output = "score";
  Selector selector = Selector::kNone;
  std::string features;         // of dynamic selection: the history's .npy file
  std::string gating;           // model that gives a weight for each base model
  double gating_threshold = 0;  // least weight; 0: an equal share
  uint32_t neighbours = 10;     // that fill missing outputs for stacking
  bool serve_all = false;
  std::vector<std::string> fixed;  // what the scheduler `static` runs; empty: all
};

// Whether a stage of a pipeline runs: what stands in an output of an earlier one.
struct Condition {
  enum class Kind : uint8_t { kAbove, kBelow, kAmong };
  // What of an item is compared: its only element, its largest, its smallest, where its largest
  // stands, any of them, or the one at `index`.
  enum class Element : uint8_t { kOnly, kMax, kMin, kArgmax, kAny, kIndex };
  std::string from;  // "STAGE.TENSOR"
  // Of any item above the value, below it, or among the values.
  Kind kind = Kind::kAbove;
  std::vector<double> values;
  Element element = Element::kOnly;
  uint32_t index = 0;
};

// How a pipeline's load is forecast: estimate/forecast.h; kModel: by a network.
enum class Forecast : uint8_t { kReactive, kMovingMaximum, kSquareRoot, kModel };

// What plans a pipeline's variants, batch sizes and replicas anew every interval (IPA, section 4).
struct AdapterOptions {
  Duration interval = Duration::seconds(10);  // whole seconds
  Forecast forecast = Forecast::kSquareRoot;
  double quantile = 0.9;         // of the square root's
  std::string model;             // file of the network
  std::optional<Duration> sla;   // none: the service's SLO, else plan::derived_sla_ms
  double margin = 1;             // on the forecast
  plan::PipelineProblem limits;  // weights and bounds; its rate, SLA and stages are not read
  // Stages have replicas of their own, workers that run nothing else; otherwise they share the
  // pool's.
  bool dedicated = false;
  // Of a replica, by model; of others what equation 1 says, from the profiles that were written
  // for several numbers of threads, and as of a worker where there are none.
  std::map<std::string, uint32_t> threads;
  double threshold_rps = 5;  // equation 1's: what one replica serves at least
  // Of dedicated replicas, which the engine fills in: what may run, and on what.
  struct Variant {
    std::string route, model;        // "service/stage/model"
    uint32_t type = 0;               // of WorkerOptions::types
    uint32_t threads = 1, most = 1;  // of a replica; replicas
  };
  std::vector<Variant> variants;
  // What the number of threads was taken from, by stage.
  struct Cores {
    std::string stage;
    plan::BaseAllocationProblem problem;
    plan::BaseAllocation answer;
  };
  std::vector<Cores> cores;
};

// What makes a service one of kind `pipeline`: its requests run through these services.
struct PipelineOptions {
  // A tensor of the request, or "STAGE.TENSOR" of an earlier stage.
  using Tensors = std::vector<std::pair<std::string, std::string>>;  // of the member: from where
  struct Stage {
    std::string name;
    std::string service;  // or a model of the repository; empty: an operator
    std::vector<std::string> after;
    Tensors inputs;       // those that are not named come from tensors of their name
    std::string fan_out;  // the output whose rows are items for the stages after it; empty: none
    std::optional<Condition> when;
    std::shared_ptr<const operators::Operator> op;
  };
  std::vector<Stage> stages;  // at least one
  // By the service's name; several of one name: the first whose stage has run. Empty: those of the
  // stages that nobody reads.
  Tensors outputs;
  std::optional<AdapterOptions> adapter;
};

// What makes a service one of kind `stream`: clients send frames, each to one of these as a
// planner decides, and are told the size of the next.
struct StreamOptions {
  struct Variant {
    std::string service;  // any that is served here
    uint32_t input_size = 0;
    double accuracy = 0;
    double request_kb = 0;  // of a frame on the wire; 0: as measured
  };
  std::vector<Variant> variants;    // by input size, ascending
  policy::StreamSettings settings;  // all but variants, workers and slo
};

// Settings of one service. A model of the repository is served under its own name
// too, with the defaults here, unless a service has that name.
struct ServiceOptions {
  std::string name;
  std::string model;                        // empty: the same as name
  std::optional<Duration> slo;              // none: requests without a timeout have no deadline
  uint32_t queue_limit = 1000;              // requests that wait at the same time
  std::optional<uint64_t> held_bytes;       // of Limits::held_bytes; none: all of them
  std::optional<uint32_t> max_batch;        // only lowers the model's own
  std::optional<VariantsOptions> variants;  // then `model` says nothing
  std::optional<EnsembleOptions> ensemble;  // the same
  std::optional<PipelineOptions> pipeline;  // the same
  std::optional<StreamOptions> stream;      // the same

  const std::string& model_name() const { return model.empty() ? name : model; }
};

// What clients may ask of the engine before it says no.
struct Limits {
  // Batches that one request may be split into; services of several variants and ensembles split
  // it into its items.
  uint32_t request_parts = 1024;
  // Of the inputs of requests under way, and of replies that no client has read yet; of the whole
  // server.
  uint64_t held_bytes = uint64_t{1} << 30;
};

struct EngineOptions {
  std::string repository;  // folder in Triton's layout
  // Which of its models are this engine's; others are as if they were not there. Empty: all.
  std::function<bool(std::string_view model)> serves;
  // Called at the start before each model is opened: which, and the share that is. Empty: nobody.
  std::function<void(std::string_view model, double share)> opening;
  // Called before a client's load of a model reads its folder; may block. Empty: nothing to do.
  std::function<absl::Status(std::string_view model)> refresh;
  std::string policy = "fermata";  // a name of policy::all_scheduler_names()
  policy::ServiceSettings groups;
  std::shared_ptr<Observer> observer;  // of what happens; none where null
  policy::Listener listener;           // of each sub-cluster's scheduler; none where empty
  // Model threads that batch, besides one that ranks workers (Symphony 4.5). 0: both happen where
  // requests come in and batches end, which is best up to some 100k requests/s; so they do where
  // a service has several models or these are loaded on demand.
  uint32_t scheduler_threads = 0;
  double latency_quantile = 0.9;    // of a profile, drives every decision; in [0.5, 0.99]
  uint32_t default_max_batch = 64;  // where neither configuration nor model says
  uint32_t operator_threads = 2;    // that run the operators of pipelines; at least 1
  // The fermata command, which tries model files in a process of their own.
  std::string probe_program = "/proc/self/exe";
  WorkerOptions workers;
  PlacementOptions placement;
  Limits limits;
  std::vector<ServiceOptions> services;
  // Workers that load on demand are told apart, so that some can load ahead: make_engine() sets it
  // where there is a service of kind `stream`.
  bool loads_ahead = false;
  // All requests have InputsElsewhere, and none are taken that have not: all workers are remote.
  bool inputs_elsewhere = false;
  // Models that stages with dedicated replicas run and nothing else does: make_engine() finds them.
  std::set<std::string> replica_models;
};

}  // namespace fermata::engine
