#pragma once

#include <algorithm>
#include <array>
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
#include "policy/stream/frame_rate.h"
#include "policy/stream/frame_sizes.h"
#include "policy/stream/stream_addresses.h"

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
  // Of one connection and of one address; 0: a quarter and half of all, rounded up.
  uint32_t most_of_connection = 0, most_of_address = 0;
  double most_rate_rps = 120;   // of one client
  double new_clients_rps = 30;  // with which all new ones of an address count
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
  std::string client;   // means nothing beyond its connection
  uint64_t owner = 0;   // the connection; 0: there is none (a simulation)
  std::string address;  // that the connection comes from; empty: none
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
// only what they get: they count with the rate that is measured of their frames (FrameRate), at
// most what they registered; who sends more is rejected, and of a frame that is larger than the
// client was told, its sender pays the difference. A client is known by its id and its connection.
class StreamSessions {
 public:
  explicit StreamSessions(StreamSettings settings);
  // INVALID_ARGUMENT: no client has such an id.
  static absl::Status check_id(const StreamFrame& frame);

  // INVALID_ARGUMENT: what is missing or out of range. RESOURCE_EXHAUSTED: too many clients, of
  // all, of the connection or of the address, or faster than registered. UNAVAILABLE: unmapped.
  // O(log clients); of one that comes where there is no room O(clients).
  absl::StatusOr<StreamRoute> frame(const StreamFrame& frame, Time now);
  // Registers, or says that it is still there.
  absl::Status hello(const StreamFrame& frame, Time now);
  void leave(std::string_view client, uint64_t owner);
  void close(uint64_t owner);  // all of a connection: O(log clients) for each
  // What a client should do after its last frame.
  StreamAdvice advice(std::string_view client, uint64_t owner) const;

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
  static constexpr uint32_t kFewFrames = 8;  // that decide how fast a link may be
  static constexpr double kMostMbps = 1e5;
  struct Session {
    std::string address;
    FrameRate rate;
    double min_accuracy = 0;
    double bandwidth_mbps = 0, sure_mbps = 0, planned_mbps = 0;
    bool told = false;  // its bandwidth
    uint64_t frames = 0;
    std::array<double, kFewFrames> lately_mbps{};  // its bandwidth at its last frames
    Duration slo, round_trip;
    Time heard, allowance_at;
    double allowance = 0;  // frames that it may send at once; negative: it has sent larger ones
    Time last_frame;
    bool planned = false;             // since it came, or was silent
    std::optional<uint32_t> variant;  // that it is mapped to
    // Of frames that may still be under way from before a plan: as large as this one's, until then.
    uint32_t excused = 0;
    Time excused_until;
    // While it is unmapped: the rate that it was found too much with counts until then.
    double rejected_rps = 0;
    Time rejected_until;
    Duration rejected_for;
    FrameSizes sizes;
    bool unmapped_unseen = false;  // by the frames of others: none of its own has come
    Duration phase;                // when its frames should come, within its period
    Duration interval() const { return Duration::from_seconds(1 / rate.said()); }
    // What it counts with; 0: as one that is not there.
    double rate_rps(Time now) const;
  };
  // By id and connection.
  using Key = std::pair<std::string, uint64_t>;
  using Sessions = std::map<Key, Session>;
  static constexpr Duration kTogether = Duration::millis(3);  // within which a batch's frames come

  Sessions::iterator forget(Sessions::iterator session);
  absl::StatusOr<Session*> find_or_add(const StreamFrame& frame, Time now);
  absl::Status admit(const StreamFrame& frame, Time now);
  size_t clients_of(uint64_t owner) const;
  bool make_room(const StreamFrame& newcomer, bool at_its_address, Time now);
  absl::Status update(const StreamFrame& frame, Session& session, Time now);
  double charge(uint32_t variant, const Session& session, Time now) const;
  absl::Status take_allowance(const StreamFrame& frame, uint32_t variant, double charge,
                              Session& session, Time now);
  absl::StatusOr<uint32_t> variant_of(const StreamFrame& frame, const Session& session) const;
  double request_kb(uint32_t variant) const;
  double own_kb(const Session& session, uint32_t variant) const;
  double scale(const Session& session, const std::vector<plan::StreamVariant>& variants) const;
  double planned_mbps(const Session& session, const std::vector<plan::StreamVariant>& variants,
                      double slo_ms, double rate, double scale) const;
  double hoped_mbps(const Session& session) const;
  Duration run_time(uint32_t variant) const;
  Duration network_time(uint64_t bytes, const Session& session, uint32_t variant) const;
  std::optional<double> batches_ahead(const Session& session) const;
  Duration shift(const Session& session) const;
  void map(Session& session, std::optional<uint32_t> variant, double asked_rps);
  void switch_to(uint32_t worker, uint32_t variant);
  void set_phases(const plan::StreamPlan::Worker& worker, std::vector<Session*> members);

  StreamSettings settings_;
  const double highest_accuracy_;  // of its variants
  Sessions sessions_;
  std::map<uint64_t, std::set<std::string>> owned_;  // clients by the connection they have
  StreamAddresses addresses_;
  std::vector<Key> asked_;         // the clients of the last problem()
  std::vector<uint32_t> current_;  // by worker
  bool changed_ = false;
  Time last_plan_;
  StreamTotals totals_;
};

}  // namespace fermata::policy
