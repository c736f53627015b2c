#pragma once

#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "engine/catalog.h"
#include "engine/options.h"
#include "engine/request.h"
#include "engine/services/stream_costs.h"
#include "engine/services/stream_face.h"
#include "engine/snapshot.h"
#include "policy/stream/stream_residents.h"
#include "policy/stream/stream_sessions.h"

namespace fermata::engine {

// A stream service on a running engine: its clients, and what they are told. Thread-safe, but for
// what plans, which one thread does.
class StreamService {
 public:
  // How workers load models, where not all have room.
  struct Loading {
    double memory_mb = std::numeric_limits<double>::infinity();  // of a worker
    // What a service runs that is a single model, or a pipeline of one and operators; null: it is
    // not.
    std::function<std::shared_ptr<const Variant>(const std::string& service)> model;
    std::function<void(uint32_t worker, std::shared_ptr<const Variant>,
                       absl::AnyInvocable<void(absl::Status)> done)>
        load;
    std::function<void(uint32_t worker, std::shared_ptr<const Variant>)> let_go;
  };
  // NOT_FOUND or UNAVAILABLE where a variant is not served; without a profile to plan with errors
  // as StreamCosts::look has. Costs are looked at every second, and made to grow with the size.
  static absl::StatusOr<std::unique_ptr<StreamService>> make(const ServiceOptions& options,
                                                             const Catalog& catalog,
                                                             uint32_t workers,
                                                             const Loading& loading,
                                                             const StreamCosts::Sources& costs);
  // Of the pool's, those that plans count.
  static uint32_t planned_workers(uint32_t workers);
  // It loads nothing any more when this returns.
  void stop();
  const std::string& name() const { return options_.name; }
  const StreamFace& face() const { return face_; }

  // Turns a call of this service into one of a variant's, or says why not. A hello or a goodbye
  // needs none: `answered` is set. Of a frame whose tensors another process has, the frame tells
  // what they do (StreamFace::read_tensors).
  absl::Status route(InferRequest& request, bool& answered);
  // What is told to the client of a frame that came at `arrival`; null for other requests.
  std::shared_ptr<const StreamReply> reply_to(const policy::StreamFrame* frame, Time arrival) const;
  void close(uint64_t owner);
  // How long the operators of its variants take in a process that runs them (StreamCosts::
  // operators); believed for some seconds, of several the longest.
  void operators_take(uint64_t process, std::vector<Duration> by_variant);

  // Looks at the costs as well, every second.
  bool wants_plan();
  plan::StreamProblem problem(uint32_t workers);  // of planned_workers() those that are there
  void planned(const plan::StreamProblem& problem, const plan::StreamPlan& plan);

  StreamStatistics statistics() const;

 private:
  StreamService(ServiceOptions options, policy::StreamSettings settings, StreamFace face,
                const Loading& loading, StreamCosts costs);
  uint32_t size_that_is_there(uint32_t size) const;
  void look_at_costs(Time now);
  // Under mutex_: what the workers are to run; what the residents order.
  void want(uint32_t worker, uint32_t variant);
  void carry_out();
  void notice_reloads();
  void loaded(uint32_t worker, uint32_t variant, const absl::Status& status);

  const ServiceOptions options_;
  const Loading loading_;
  const StreamFace face_;
  mutable std::mutex mutex_;  // for a moment; never while the planner runs
  policy::StreamSessions sessions_;
  struct Elsewhere {
    std::vector<Duration> operators;  // by variant
    Time said;
  };
  std::optional<Duration> operators_elsewhere(uint32_t variant) const;  // under mutex_
  std::map<uint64_t, Elsewhere> elsewhere_;                             // by process
  StreamCosts costs_;                                                   // the planner's thread
  Time costs_seen_;
  uint32_t mapped_ = 0;
  double mean_accuracy_ = 0;
  std::optional<policy::StreamResidents> residents_;  // where not all variants have room
  std::vector<VariantId> models_;                     // then, as they were loaded
  uint64_t switches_ = 0, prefetched_ = 0, stale_ = 0;
  bool stopped_ = false;
};

}  // namespace fermata::engine
