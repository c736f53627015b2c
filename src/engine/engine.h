#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "base/time.h"
#include "engine/catalog.h"
#include "engine/host/placement_log.h"
#include "engine/options.h"
#include "engine/request.h"
#include "engine/snapshot.h"
#include "plan/streams/stream_problem.h"
#include "policy/rules.h"
#include "policy/service.h"

namespace fermata::engine {

struct AdapterDecision;  // engine/services/adapter.h

// What was planned for the stream services, which share the workers.
struct StreamDecision {
  // Clients of a service that send at one size; at 0 those that no variant can serve in time.
  struct Group {
    std::string service;
    uint32_t input_size = 0;
    size_t clients = 0;
  };
  plan::StreamProblem problem;  // `fermata plan streams` answers it alike
  std::vector<Group> groups;    // the largest size of a service first; none is empty
  Time at;                      // when it was begun
  Duration took;
};

// The real-time driver: takes requests from front ends, runs the policy on its
// own thread, hands batches to workers, and replies. Front ends, metrics and the
// command line see only this class and the snapshots it returns. All of it may
// be called from any thread.
class Engine {
 public:
  // Refuses what waits, lets what runs end; every reply has come when it returns.
  virtual ~Engine() = default;
  virtual Time now() const = 0;

  // Never blocks, takes no lock. The reply may come before submit returns (a refusal).
  virtual JobId submit(InferRequest request, Reply reply) = 0;
  // The client went away: queued work is removed, running work is not replied to.
  // The reply still comes exactly once, as CANCELLED, unless it already came.
  virtual void cancel(JobId job) = 0;

  // What is served now; cheap, never blocks for long. Never null.
  virtual std::shared_ptr<const Catalog> catalog() const = 0;
  // Every model of the repository with its state, services of another name too.
  virtual std::vector<ModelStatus> index() const = 0;
  // Loads a model, or again if it is loaded: what runs ends on the old version,
  // and if the new one fails the old one goes on. `config`: a ModelConfig as text
  // or JSON that replaces the file's. Blocks for seconds; NOT_FOUND,
  // INVALID_ARGUMENT or UNAVAILABLE say why not.
  virtual absl::Status load(std::string_view model, std::optional<std::string> config = {}) = 0;
  // What waits is refused with UNAVAILABLE, what runs ends. Blocks. NOT_FOUND where it is not
  // loaded; INVALID_ARGUMENT where it is the name of a service, which is served as long as its
  // models are.
  virtual absl::Status unload(std::string_view model) = 0;
  // What is configured and not served, each with why: the services, and the models that the
  // repository had at the start or that were loaded since. What was unloaded is not asked for any
  // more, nor what needs it. Cheap, never blocks for long.
  virtual std::vector<ModelStatus> unserved() const { return {}; }
  // Why a version that is served cannot run, on some worker at least; empty: it can. Cheap.
  virtual std::string why_failing(const Variant&) const { return {}; }

  // Where models live, planned anew from the rates since the last call; what a timer calls
  // every epoch where memory is short. Blocks for as long as models load. Nothing where
  // memory is unlimited.
  virtual void end_epoch() = 0;
  // The last decisions on it, the newest first.
  virtual std::vector<PlacementDecision> placement_decisions() const = 0;

  // From what each sub-cluster last chose among variants and base models, as its scheduler keeps
  // it. Blocks for a moment.
  virtual std::vector<policy::Problem> last_problems() const = 0;

  // How all sub-clusters' schedulers decide from now on, also on what waits; of policies that have
  // rules. Returns at once.
  virtual void set_rules(const policy::Rules&) {}

  // Another second of the load of pipelines that have an adapter, which decides when its interval
  // is over; what a timer calls every second. Blocks for milliseconds.
  virtual void end_second() {}
  // How many workers serve from now on, where their number is not fixed: what the autoscaling
  // signal does every window. New ones load everything before they serve, old ones end what they
  // run. Blocks for as long as models load. How many serve then.
  virtual uint32_t set_workers(uint32_t count);
  // A window of the autoscaling signal is over; what a timer calls.
  virtual void close_window() {}
  // The last decisions of all adapters, the newest of each first.
  virtual std::vector<AdapterDecision> adapter_decisions() const;

  // The last of those with clients, if any.
  virtual std::optional<StreamDecision> last_stream_decision() const { return {}; }
  // A connection ended: the streams' clients on it (StreamFrame::owner) have gone.
  virtual void close_streams(uint64_t /*owner*/) {}

  virtual EngineSnapshot snapshot() const = 0;
  // Whether some worker's run is beyond its limit and has not ended. Cheap.
  virtual bool overdue() const { return false; }
  // Loads that wait for a model's process fail soon, and so do later ones: the server stops.
  virtual void stop_loading() {}
};

bool serves_any(const Catalog& catalog);  // O(services)

// Loads the whole repository. A model that fails, or has no version yet, is UNAVAILABLE in the
// index and in the log, and among the unserved(); the others are served. Fails where the options
// themselves are wrong.
absl::StatusOr<std::unique_ptr<Engine>> make_engine(EngineOptions options);

// What make_engine() would say of these options, and what would be served.
struct Examination {
  // A line each; empty: something would be served, and everything but models without a version and
  // what needs them.
  std::vector<std::string> findings;
  std::vector<std::string> notes;  // these, and what is read and not followed
  std::shared_ptr<const Catalog> catalog;
};
// Starts an engine and ends it again: one reading of the options for those who check them and for
// those who serve by them. Blocks for as long as the models take to load.
Examination examine(EngineOptions options);

}  // namespace fermata::engine
