#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <shared_mutex>

#include "engine/request.h"

namespace fermata::engine {

// Calls of models by the code of models, which are requests like others. Whoever calls keeps its
// worker until it is answered, so one worker at least is left to those that are called: a call by
// the model of the last is refused, since it could wait for ever. Thread-safe.
class ModelCalls {
 public:
  struct Server {  // Engine's
    std::function<JobId(InferRequest request, Reply reply)> submit;
    std::function<void(JobId job)> cancel;
  };

  explicit ModelCalls(uint32_t workers = std::numeric_limits<uint32_t>::max())
      : workers_(workers) {}
  void open(Server server);
  // Later calls are refused, and none is on its way to the server when it returns.
  void close();

  // `caller`: which worker's process. The reply comes once, from any thread, maybe before this
  // returns.
  JobId call(const void* caller, InferRequest request, Reply reply);
  void cancel(JobId job);

 private:
  bool begin(const void* caller);
  void end(const void* caller);

  const uint32_t workers_;
  std::shared_mutex serving_;
  Server server_;
  std::mutex mutex_;
  std::map<const void*, uint32_t> waiting_;  // callers, and for how many answers
};

}  // namespace fermata::engine
