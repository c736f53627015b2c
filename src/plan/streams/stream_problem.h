#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/latency.h"

namespace fermata::plan {

// Which DNN each worker runs and which clients it serves (Jellyfish, section 4.1).
// Milliseconds and requests a second as in the document, so that what is written
// reads back to the same bits.

struct StreamVariant {
  static constexpr uint32_t kMostBatch = 256;

  std::string name;
  uint32_t input_size = 0;  // what clients should send, for example pixels a side
  double accuracy = 0;
  double request_kb = 0;  // one request on the wire, in 1000 bytes
  std::shared_ptr<const LatencyTable> latency;
  double delay_ms = 0;  // that an answer takes beside its worker
  std::string service;  // whose clients alone it may serve, where several services share workers
  bool raised = false;  // some batch would take less than a smaller one, and counts as that
};

struct StreamClient {
  std::string id;
  double rate_rps = 0;
  double slo_ms = 0;  // end to end
  double bandwidth_mbps = 0;
  double rtt_ms = 0;
  double min_accuracy = 0;
  std::optional<double> batches_ahead;  // instead of the problem's
  std::string service;

  // s/W + RTT (equation 1).
  double network_ms(double request_kb) const { return request_kb * 8 / bandwidth_mbps + rtt_ms; }
};

enum class StreamSolver : uint8_t { kBest, kExact, kAnnealing };

struct StreamProblem {
  static constexpr uint32_t kMostWorkers = 256, kMostVariants = 64, kMostClients = 1024;

  uint32_t workers = 1;
  double worker_share = 1;  // what part of a worker's time each of them has
  double period_ms = 500;   // between two plans; of no weight in this one
  // How many batches a frame may have to wait for: 1 as published, less where clients are told
  // when to send.
  double batches_ahead = 1;
  std::vector<StreamVariant> variants;
  std::vector<StreamClient> clients;
  std::vector<uint32_t> current;  // variant of each worker; empty: the least accurate
  uint64_t seed = 1;
  StreamSolver solver = StreamSolver::kBest;
  std::optional<uint64_t> max_steps;  // looked-at combinations; none: the solver's own bound
};

struct StreamPlan {
  struct Worker {
    uint32_t worker = 0;            // whose entry of `current` this replaces
    uint32_t variant = 0;           // index in the problem
    uint32_t batch = 0;             // the smallest that carries the rate
    std::vector<uint32_t> clients;  // ascending, not empty
  };
  double objective = 0;      // accuracy * rate over the mapped clients (equation 2)
  double mean_accuracy = 0;  // the same over the rates of all clients
  uint32_t served = 0;
  bool exact = false;  // the optimum, proven, of the latencies as they were given
  std::vector<uint32_t> unmapped;
  std::vector<Worker> workers;  // by `worker`; who serves nobody is left out
};

}  // namespace fermata::plan
