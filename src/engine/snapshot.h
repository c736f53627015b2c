#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/time.h"

namespace fermata::engine {

// Every request ends in exactly one of these.
enum class Outcome : uint8_t {
  kOnTime,            // answered by its deadline, or without one
  kLate,              // answered after its deadline
  kRejectedDeadline,  // could not have made it: DEADLINE_EXCEEDED
  kRejectedQueue,     // the queue was full: RESOURCE_EXHAUSTED
  kUnavailable,       // its model went away before it ran
  kInvalid,           // did not fit the model, or the model rejected it: INVALID_ARGUMENT
  kCancelled,
  kFailed,  // the model failed on it
};
inline constexpr size_t kOutcomes = 8;
std::string_view name(Outcome outcome);  // "on_time", "rejected_deadline", ...
// Of what ran and was not answered: what is wrong with the request is not the model's failure.
inline Outcome outcome_of_failure(const absl::Status& why) {
  return absl::IsInvalidArgument(why) ? Outcome::kInvalid : Outcome::kFailed;
}

// A count and the time they took together, as Triton's StatisticDuration.
struct DurationCount {
  uint64_t count = 0;
  Duration total;
};

// counts[i] holds observations in (bounds[i-1], bounds[i]]; the last count is of
// those above every bound.
struct HistogramSnapshot {
  std::vector<double> bounds;
  std::vector<uint64_t> counts;
  double sum = 0;
};

struct BatchSizeStatistics {
  DurationCount compute_input, compute_infer, compute_output;
};

// One service and version since the engine started (over reloads).
struct ServiceStatistics {
  std::string service, version;   // version empty: of requests that came while none was ready
  int64_t last_inference_ms = 0;  // since the epoch of Unix; 0: never
  uint64_t inference_count = 0;   // items answered
  uint64_t execution_count = 0;   // batches
  std::array<uint64_t, kOutcomes> outcomes{};
  uint64_t lacking = 0;  // of those refused for the deadline, whom a free worker could have saved
  // Per request, in Triton's sense: success is the whole time in the server.
  DurationCount success, fail, queue, compute_input, compute_infer, compute_output;
  std::map<uint32_t, BatchSizeStatistics> batches;  // by items in the batch
  HistogramSnapshot slack_ms;                       // deadline minus reply; negative: late
  HistogramSnapshot queueing_ms;                    // arrival to the start of its batch
  HistogramSnapshot latency_ms;                     // arrival to the reply
  uint64_t pending = 0;                             // requests that wait now
  bool is_operator = false;                         // of a pipeline: it needs no worker
  // Of a dynamic network: items by the stage that they left after, as far as any did; batches whose
  // later stages ran wider than asked for.
  std::vector<uint64_t> exits;
  uint64_t widened = 0;
  // Of a service of several models: the items that each has answered, or taken part in answering.
  std::map<std::string, uint64_t> answers;
  // Measured over profiled time of a batch, 1 where they agree.
  double drift = 1;
};

// Whether its runs end.
struct RunHealth {
  bool overdue = false;   // one is beyond its limit and has not ended
  uint64_t renewals = 0;  // of the worker, because one never did
};

// The processes that a model has had; of the one that it has, its number.
struct ProcessStatistics {
  std::string model;
  int64_t pid = 0;
  uint64_t starts = 0;
  std::map<std::string, uint64_t> deaths_by;  // "SIGSEGV", "exit"
  bool there = false, quarantined = false;
  bool standby = false;    // another waits, loaded
  double processor_s = 0;  // that they have taken
};

struct WorkerStatistics {
  uint32_t worker = 0;
  uint32_t type = 0;  // of EngineSnapshot::worker_types
  uint64_t batches = 0;
  Duration busy;  // since the engine started
  RunHealth health;
  bool serving = true;  // false: it has left, and has nothing loaded
  std::string host;     // that it is of; empty: this one, or none that is there
};

// Another host whose workers are in the pool, or were: since the server started.
struct HostStatistics {
  std::string name, type, address;
  uint32_t workers = 0;                     // now
  uint64_t joined = 0;                      // times
  std::map<std::string, uint64_t> ends_by;  // "left", "died", "silent", "refused"
  Duration control_delay;                   // bound on a message there and back
  double nanos_per_byte = 0;                // the same on a byte
  uint64_t sent = 0, received = 0;          // bytes
  uint64_t tensors = 0;                     // of them
  Duration clock_error;                     // at most, in what is known of its clock
  uint64_t batches = 0, lost = 0;
};

// A process that speaks with clients and keeps their inputs, since the server started.
struct FrontendStatistics {
  std::string name, address;
  bool there = false;   // now
  uint64_t joined = 0;  // times
  uint64_t requests = 0, replies = 0;
  uint64_t sent = 0, received = 0, tensors = 0;  // bytes; of them, of tensors
  Duration clock_error;                          // as HostStatistics has it
};

struct ClusterStatistics {
  std::vector<HostStatistics> hosts;  // by name
  std::vector<FrontendStatistics> frontends;
  std::map<std::string, uint64_t> refused;  // connections, by why: "tls", "version", ...
  uint64_t epoch = 0;                       // of this scheduler; 0: it is not the active one
};

// A share of the workers with a scheduler of its own.
struct SubclusterStatistics {
  uint32_t workers = 0;
  double used_mb = 0, memory_mb = 0;  // of each of its workers; memory_mb may be infinite
};

// Where models live and how epochs went.
struct PlacementSnapshot {
  std::map<std::string, uint32_t> subcluster_of;  // by model that is placed
  uint64_t epochs = 0;
  uint64_t loads = 0, moves = 0, postponed = 0, failed = 0;  // changes, since the start
  Duration last_epoch, last_plan;  // how long it took in all, and the planning of it
  // Over the sub-clusters, (max - min) / mean, after the last epoch.
  double rate_imbalance = 0, memory_imbalance = 0;
};

// How many workers the last closed window asked for.
struct AutoscaleSignal {
  Duration window;  // its length; 0: none has closed yet
  double bad_rate = 0, idle_fraction = 0;
  int64_t workers_to_add = 0;  // negative: to give back
  // Window after window, by type of workers: how many to have (plan/autoscale.h).
  std::map<std::string, uint32_t> wanted;
};

// A stream service since the engine started.
struct StreamStatistics {
  std::string service;
  uint64_t clients = 0, mapped = 0;  // now
  uint64_t frames = 0, mismatches = 0, unmapped = 0, flooded = 0, plans = 0;
  double mean_accuracy = 0;  // of the last plan
  // Of workers to another DNN, where not all have room; those that were there already; frames whose
  // client's DNN was not there yet.
  uint64_t switches = 0, prefetched = 0, stale = 0;
};

// What the adapter of a pipeline last decided, if it has one.
struct PipelineStatistics {
  struct Stage {
    std::string name, variant;
    uint32_t batch = 1;
    double replicas = 0;
  };
  std::string service;
  uint64_t decisions = 0, infeasible = 0;  // since the start
  double forecast_rps = 0, cost = 0, accuracy = 0;
  std::vector<Stage> stages;  // where nothing kept the limits what carries most; none at first
  std::map<std::string, uint32_t> serving;  // dedicated replicas, by "service/stage/model"
};

struct EngineSnapshot {
  Time now, started;
  std::string policy;
  std::vector<ServiceStatistics> services;  // by service, then version
  std::vector<std::string> worker_types;
  std::vector<WorkerStatistics> workers;
  std::vector<ProcessStatistics> processes;
  ClusterStatistics cluster;
  std::vector<SubclusterStatistics> subclusters;
  PlacementSnapshot placement;
  AutoscaleSignal autoscale;
  std::vector<StreamStatistics> streams;
  std::vector<PipelineStatistics> pipelines;  // that have an adapter
  Duration control_delay;                     // the bound that decisions take into account
  uint64_t batch_keys = 0;
  uint64_t unknown = 0;  // requests for services that there are not
};

}  // namespace fermata::engine
