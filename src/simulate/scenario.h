#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/latency.h"
#include "policy/types.h"
#include "simulate/arrivals.h"

namespace fermata::simulate {

// One model of a simulated cluster and the requests for it.
struct SimulatedModel {
  std::string name;
  std::vector<LatencyModel> latency;  // by worker type
  Duration slo;
  double share = 1;  // of the cluster's rate, relative to the other models' shares
  uint32_t max_batch = 256;
  ArrivalProcess arrival;
  double static_mb = 0, dynamic_mb = 0;
};

struct WorkerGroup {
  std::string type;
  uint32_t count = 1;
  double memory_mb = 0;  // 0: not limited
};

// A cluster that need not exist (the contract's document). Requests that arrive
// in [warmup, warmup + duration) are measured and followed to their end.
struct Scenario {
  uint64_t seed = 1;
  Duration warmup = Duration::seconds(2), duration = Duration::seconds(20);
  std::string scheduler = "fermata";
  std::vector<WorkerGroup> workers;  // worker type i is workers[i].type
  policy::DelayBound network;
  std::vector<SimulatedModel> models;
  double rate_rps = 0;

  uint32_t worker_count() const;
  // Requests a second of one model at this scenario's rate.
  double rate_of(const SimulatedModel& model) const;
  // Where the models do not fit into a worker's memory: the constraint, else empty.
  std::string memory_violation() const;
};

}  // namespace fermata::simulate
