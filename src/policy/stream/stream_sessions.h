#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/time.h"
#include "model/latency.h"
#include "plan/streams/stream_problem.h"
#include "policy/stream/frame_sizes.h"

namespace fermata::policy {

// A stream service: clients that send frames over networks of their own, to one of several DNNs
// by input size, which a planner picks for each (Jellyfish, sections 3 and 4).
struct StreamSettings {
  struct Variant {
    std::string name;
    uint32_t input_size = 0;
    double accuracy = 0;
    double request_kb = 0;  // 0: as measured
    std::shared_ptr<const LatencyTable> latency;
    Duration delay;  // that an answer takes beside its worker
  };
  std::vector<Variant> variants;  // by input size, ascending, without two of one size
  uint32_t workers = 1;
  std::optional<Duration> slo;  // of clients that name none
  Duration period = Duration::millis(500), slack = Duration::millis(2);
  double min_accuracy = 0;
  // Whether clients are told when to send, so that frames come as batches. What part of a batch
  // plans then let a frame wait for: below 1 they choose more accurate DNNs, and where links are
  // unsteady more frames come too late.
  bool phases = false;
  double phased_wait = 0.5;
  plan::StreamSolver solver = plan::StreamSolver::kBest;
  uint32_t most_clients = 256;
  double most_rate_rps = 120;  // of one client
};

// Of variants in whatever type says their accuracy; 0: there are none.
template <class Variants>
double highest_accuracy(const Variants& variants) {
  double highest = 0;
  for (const auto& variant : variants) highest = std::max(highest, variant.accuracy);
  return highest;
}

// What a client says of itself with a frame. What it leaves out stays as it was.
struct StreamFrame {
  std::string client;
  uint64_t owner = 0;  // the connection; 0: none that lasts
  std::optional<double> rate_rps, bandwidth_mbps, sure_mbps, min_accuracy;
  std::optional<Duration> slo, round_trip;
  std::optional<uint32_t> input_size;
  uint64_t bytes = 0;
  bool hello = false, leave = false;  // without a frame: to register or to measure the way, to go
  bool ack = false;                   // wants to hear that it has come, before it is answered
};

// What the reply tells a client.
struct StreamAdvice {
  uint32_t input_size = 0;  // of its next frame; 0: unmapped, it may run a model of its own
  Duration shift;           // by how much later its frames should come; negative: sooner
};

// Where a frame goes.
struct StreamRoute {
  uint32_t variant = 0;  // by its size
  uint32_t planned = 0;  // its client's
  Duration network;      // what the way took, as far as is known
  Time deadline;         // what the objective leaves of it
  Time start_from;       // at once, or when the others of its batch should have come
};

struct StreamTotals {
  uint64_t frames = 0, mismatches = 0, unmapped = 0, flooded = 0, plans = 0;
  // Of workers to another DNN, and how many of them to one at most two sizes away: what a worker
  // finds that keeps five DNNs, its own and the neighbours (section 4.4).
  uint64_t switches = 0, near_switches = 0;
};

// The clients of one service and what was planned for them. Pure: `now` never goes back; the
// planner is asked outside, problem() and planned() go together. Whatever clients say changes
// only what they get: rates are what was measured of them, at most what they registered, and who
// sends more is rejected.
class StreamSessions {
 public:
  explicit StreamSessions(StreamSettings settings);

  // INVALID_ARGUMENT: what is missing or out of range. ALREADY_EXISTS: the id is another
  // connection's. RESOURCE_EXHAUSTED: too many clients, or faster than registered. UNAVAILABLE:
  // unmapped. O(log clients).
  absl::StatusOr<StreamRoute> frame(const StreamFrame& frame, Time now);
  // Registers, or says that it is still there.
  absl::Status hello(const StreamFrame& frame, Time now);
  void leave(std::string_view client, uint64_t owner);
  void close(uint64_t owner);  // all of a connection: O(log clients) for each
  // What a client should do after its last frame.
  StreamAdvice advice(std::string_view client) const;

  // Whether the mapping should be planned anew: after a period, and soon after a client came or
  // went or its bandwidth changed by a quarter. Forgets clients that are silent for long.
  bool wants_plan(Time now);
  // Frames of the variants' request_kb take as long on a client's bandwidth_mbps as its own frames
  // do on its link. O(variants * clients).
  plan::StreamProblem problem(Time now);
  void planned(const plan::StreamProblem& problem, const plan::StreamPlan& plan);

  // What frames of a variant take from now on.
  void learned(uint32_t variant, std::shared_ptr<const LatencyTable> latency, Duration delay);

  const StreamSettings& settings() const { return settings_; }
  const StreamTotals& totals() const { return totals_; }
  size_t clients() const { return sessions_.size(); }

 private:
  struct Session {
    uint64_t owner = 0;
    double rate_rps = 0, min_accuracy = 0;
    double bandwidth_mbps = 0, sure_mbps = 0, planned_mbps = 0;
    Duration slo, round_trip;
    Time heard, allowance_at;
    double allowance = 0;  // frames that it may send at once
    double measured_rps = 0;
    Time last_frame;
    bool planned = false;             // since it came
    std::optional<uint32_t> variant;  // that it is mapped to
    FrameSizes sizes;
    bool unmapped_unseen = false;  // by the frames of others: none of its own has come
    Duration phase;                // when its frames should come, within its period
    Duration interval() const { return Duration::from_seconds(1 / rate_rps); }
  };
  using Sessions = std::map<std::string, Session, std::less<>>;

  Sessions::iterator forget(Sessions::iterator session);
  absl::StatusOr<Session*> find_or_add(const StreamFrame& frame, Time now);
  absl::Status update(const StreamFrame& frame, Session& session, Time now);
  absl::Status take_allowance(const StreamFrame& frame, Session& session, Time now);
  absl::StatusOr<uint32_t> variant_of(const StreamFrame& frame, const Session& session) const;
  double request_kb(uint32_t variant) const;
  double own_kb(const Session& session, uint32_t variant) const;
  double scale(const Session& session, const std::vector<plan::StreamVariant>& variants) const;
  double planned_mbps(const Session& session, const std::vector<plan::StreamVariant>& variants,
                      double slo_ms, double scale) const;
  std::optional<double> batches_ahead(const Session& session) const;
  Duration shift(const Session& session) const;
  void switch_to(uint32_t worker, uint32_t variant);
  void set_phases(const plan::StreamPlan::Worker& worker, std::vector<Session*> members);

  StreamSettings settings_;
  const double highest_accuracy_;  // of its variants
  Sessions sessions_;
  std::set<std::pair<uint64_t, std::string>> owned_;  // clients by the connection they have
  std::vector<uint32_t> current_;                     // by worker
  bool changed_ = false;
  Time last_plan_;
  StreamTotals totals_;
};

}  // namespace fermata::policy
