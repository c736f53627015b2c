#pragma once

#include <cstdint>
#include <vector>

#include "base/random.h"
#include "plan/streams/stream_tables.h"

namespace fermata::plan {

struct AnnealedStreams {
  StreamGroups groups;
  std::vector<uint32_t> ranks;  // by group
  double served = 0;            // of the clients that can be served, the fraction that is
  double accuracy = 0;          // the mean over the rates of all clients
  uint64_t steps = 0;
};

// DNN selection by simulated annealing (Jellyfish, Algorithm 2), from the DNNs of
// problem.current: a phase that makes DNNs smaller until every client that can be served is,
// then one that makes them larger while as many stay served. T0 = 0.0125, Tmin = 0.0005,
// alpha = 0.99, so 321 mappings a phase; ends early after max_steps of StreamMapper.
//
// As published, the second phase is skipped where a client that could be served is not, and
// every DNN may change at once. The published acceptance exp(-diff/T) exceeds 1 for what it
// is meant to judge; a weaker neighbour is taken with the probability exp(-|diff|/T).
// Otherwise accuracy is raised in any case, and a neighbour has about two DNNs changed.
enum class Annealing : uint8_t { kPublished, kThorough };

AnnealedStreams anneal_streams(const StreamProblem& problem, const StreamTables& tables,
                               Annealing how, uint64_t max_steps, Random& random);

}  // namespace fermata::plan
