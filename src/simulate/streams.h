#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "plan/streams/stream_problem.h"
#include "policy/stream/stream_sessions.h"

namespace fermata::simulate {

// Clients that send frames over links whose bandwidth follows traces, to a stream service or to a
// baseline (Jellyfish, section 7), in virtual time.

enum class StreamMode : uint8_t {
  kPlanned,   // data and DNNs adapted together: a stream service
  kFixed,     // one DNN everywhere; clients send what their link sustains, at most its size
  kDnnAlone,  // planned, but every client sends the same size
  // Planned with `compute_share` of every objective for the server, whatever the network leaves;
  // clients know nothing of DNNs and send the largest size whose rate the link bears (DA_bw of
  // figure 16), and that comes in the rest of the objective (DA_slo).
  kBandwidthAlone,
  kObjectiveAlone,
};

// Where a frame is served.
enum class StreamDispatch : uint8_t {
  kPool,     // on any worker
  kWorkers,  // on that to which the plan maps its client, as published
  kBatches,  // there, in batches of what was planned for that worker at most
};

struct StreamRun {
  struct Client {
    double rate_rps = 15, slo_ms = 100, rtt_ms = 2;
    uint32_t trace = 0;
    double start_s = 0;  // where in the trace it starts
    double first_frame_s = 0;
  };
  std::vector<std::vector<double>> traces_mbps;  // each repeats itself
  double hold_s = 1;                             // of each value
  std::vector<plan::StreamVariant> variants;     // by size, ascending
  std::vector<Client> clients;
  uint32_t workers = 2;
  StreamMode mode = StreamMode::kPlanned;
  uint32_t variant = 0;  // the one DNN of kFixed, the one size of kDnnAlone
  double compute_share = 0.5;
  StreamDispatch dispatch = StreamDispatch::kPool;
  bool phases = false;  // whether clients are told when to send
  double phased_wait = policy::StreamSettings().phased_wait;
  plan::StreamSolver solver = plan::StreamSolver::kBest;
  std::string scheduler = "fermata";
  double duration_s = 60, warmup_s = 2;
  // Of frames' sizes, uniformly around request_kb; of batches' times, never above the profile.
  double size_spread = 0.1;
  uint64_t seed = 1;
  // DNNs that a worker holds, and how long it takes to load one; 0: all are there.
  uint32_t room = 0;
  double load_ms = 175;
  bool keep_sent = false;  // what each frame was sent with, in the result
};

struct StreamRunResult {
  struct Sent {
    uint32_t client = 0, size = 0;
    double at_s = 0, mbps = 0, estimated_mbps = 0;  // 0: no estimate yet
    bool on_time = false;
  };
  // offered = on_time + late + rejected (by the server) + dropped (before they were sent)
  uint64_t offered = 0, on_time = 0, late = 0, rejected = 0, dropped = 0;
  uint64_t mismatches = 0, plans = 0, switches = 0, near_switches = 0, batches = 0, batched = 0;
  // Switches to a DNN that was there, and to one that had to be loaded; frames that ran on the DNN
  // before, because the one that they came for was not loaded yet.
  uint64_t prefetched = 0, fetched = 0, stale = 0;
  double accuracy = 0;        // mean over the frames on time
  double utilization = 0;     // of the workers
  double estimate_error = 0;  // median of |estimated / actual bandwidth - 1|
  std::vector<uint64_t> frames_by_variant;
  std::vector<double> latencies_ms;  // of answers, at the client, ascending
  std::vector<Sent> sent;
  double miss_rate() const {
    return offered == 0 ? 0 : 1 - static_cast<double>(on_time) / static_cast<double>(offered);
  }
};

// The same run gives the same result. INVALID_ARGUMENT for an unknown scheduler.
absl::StatusOr<StreamRunResult> run_streams(const StreamRun& run);

}  // namespace fermata::simulate
