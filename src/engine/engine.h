#pragma once

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "base/time.h"
#include "engine/request.h"

namespace fermata::engine {

// The real-time driver: takes requests from front ends, runs the policy on its
// own thread, hands batches to workers, and replies. Front ends, metrics and the
// command line see only this class and the snapshots it returns.
class Engine {
 public:
  virtual ~Engine() = default;
  virtual Time now() const = 0;

  // Never blocks. The reply may come before submit returns (a refusal).
  virtual JobId submit(InferRequest request, Reply reply) = 0;
  // The client went away: queued work is removed, running work is not replied to.
  // The reply still comes exactly once, as CANCELLED, unless it already came.
  virtual void cancel(JobId job) = 0;
};

}  // namespace fermata::engine
