#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/histogram.h"
#include "base/time.h"
#include "engine/snapshot.h"
#include "tune/recorder.h"

namespace fermata::tune {

// What was counted of a service within some time.
struct ServiceCounts {
  std::array<uint64_t, engine::kOutcomes> outcomes{};
  // Requests that ended, and those by which its queue has grown: what runs counts when it ends.
  uint64_t came = 0;
  std::map<uint32_t, uint64_t> batches;  // by items
  uint64_t waiting = 0;                  // at its end
  // Of what was answered, as far as it was recorded.
  std::map<std::string, uint64_t> answered_by;  // variants, subsets of models joined by +
  std::optional<double> accuracy;               // mean of what is expected of the answers
  uint64_t judged = 0;                          // of how many
  Duration p50, p99;
  bool called = false;  // clients call it: the others are stages of pipelines
  double drift = 1;     // measured over profiled run time of its batches, at its end

  uint64_t ended() const;  // however
  uint64_t of(engine::Outcome outcome) const { return outcomes[static_cast<size_t>(outcome)]; }
  bool empty() const;
};

// A second, or several together.
struct Period {
  Time at;  // its end
  Duration length;
  std::map<std::string, ServiceCounts> services;  // that have anything to say
  double busy = 0;                                // share of the serving workers' time
  uint32_t workers = 0;                           // that serve
  uint64_t renewals = 0;                          // of workers whose run never ended
  double memory_mb = 0;                           // of the process
  std::optional<int64_t> workers_wanted;          // by the last window of the autoscaling signal
  Duration control_delay;                         // that decisions allow for, the longest

  ServiceCounts pool() const;  // of what clients call, together
  size_t bytes() const;        // that it takes, about
};

// The last minutes, by the second and coarser. What it counts are differences of the engine's own
// statistics, so that they agree with /metrics whatever the recorder has lost. Pure; not
// synchronised.
class History {
 public:
  static constexpr size_t kSeconds = 300, kCoarse = 360, kCoarseSeconds = 10;

  // At most so many bytes; the oldest goes first.
  explicit History(size_t most_bytes) : most_bytes_(most_bytes) {}

  // A second is over. `called`: the services that clients see. `answers` as the recorder took
  // them since the last call, names included. Null for the first: nothing to compare with.
  const Period* add(const engine::EngineSnapshot& now, const std::set<std::string>& called,
                    std::map<std::string, Answers> answers, double memory_mb);

  const std::deque<Period>& seconds() const { return seconds_; }
  const std::deque<Period>& coarse() const { return coarse_; }  // of kCoarseSeconds each

 private:
  using Rows = std::map<std::string, ServiceCounts>;  // since the start
  void add_to_coarse(const Period& second);
  void bound();

  const size_t most_bytes_;
  std::optional<Time> last_at_;
  Rows last_;
  Duration last_busy_;
  uint64_t last_renewals_ = 0;
  std::deque<Period> seconds_, coarse_;
  std::optional<Period> growing_;               // of the coarse ones
  size_t grown_ = 0;                            // seconds in it
  std::map<std::string, Histogram> latencies_;  // of it
};

}  // namespace fermata::tune
