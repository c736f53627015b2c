#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/ids.h"
#include "base/time.h"
#include "engine/request.h"
#include "engine/served_models.h"
#include "policy/service.h"

namespace fermata::engine {

// What becomes of a message of a stream's client whose tensors a frontend has.
struct StreamDirection {
  absl::Status status;  // why nothing runs it
  std::string service;  // the variant that is to run it; empty: it has been answered, or rejected
  // Of its call: from its arrival; as InferRequest has it; from its arrival.
  Duration timeout, network_time, start_after;
  policy::StreamAdvice advice;
};

// What an engine is asked beside, whose requests have their inputs with frontends
// (EngineOptions::inputs_elsewhere). Any thread.
class ForFrontends {
 public:
  virtual ~ForFrontends() = default;
  // What is loaded of the repository: what the catalog is made of, by the services' options.
  virtual ServedModels models() const = 0;
  // What a frontend has found in the inputs of a request, by item: changes nothing where the
  // request has ended, or is no such.
  virtual void learned(JobId job, std::vector<policy::Estimate> by_item) = 0;
  // Of a stream's client, whose frame tells what its tensors would (StreamFace::read_tensors):
  // of the request nothing else counts but service, arrival and network time. Its owner is of this
  // frontend alone, which says when that is gone (Engine::close_streams).
  virtual StreamDirection direct(InferRequest request) = 0;
  // How long the operators of a stream's variants take at a frontend, which says so every second.
  virtual void operators_take(uint64_t frontend, std::string_view stream,
                              std::vector<Duration> by_variant) = 0;
};

}  // namespace fermata::engine
