#pragma once

#include <cstdint>
#include <vector>

#include "model/latency.h"

namespace fermata::policy {

// What a model asks of the pool.
struct Demand {
  double rate_rps = 0;
  const LatencyTable* latency = nullptr;
  Duration slo;
};

// A model's part of one worker.
struct Placed {
  uint32_t key = 0, worker = 0;  // key: its index among the demands
  double rate_rps = 0;           // how much of its rate
};

// Static placement after Nexus (Shen et al., SOSP 2019, section 6.1, "squishy bin
// packing"). A model that can fill workers at the batch size of 2·ℓ(b) <= SLO gets
// them alone. What remains of each model runs in duty cycles of length d in which
// b = d·rate requests gather, ℓ(b) + d <= SLO; models share a worker when all
// their batches fit into the shortest of their cycles. Largest first, each into
// the worker that it fills best. Rates are scaled up or down alike until the
// packing takes all workers, so every model has the same room to grow.
// Every key gets a place, if only on the last worker. workers >= 1.
// O(kBisections · keys · workers · keys on a worker).
std::vector<Placed> place_by_rate(const std::vector<Demand>& demands, uint32_t workers);

}  // namespace fermata::policy
