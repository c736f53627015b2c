#pragma once

#include <algorithm>
#include <optional>

#include "engine/request.h"

namespace fermata::engine {

// Of a service whose requests without a timeout have `slo`, if any.
inline Time deadline_of(const InferRequest& request, const std::optional<Duration>& slo) {
  Time deadline = Time::infinite();
  if (request.timeout) {
    deadline = request.arrival + *request.timeout;
  } else if (slo) {
    deadline = request.arrival + *slo;
  }
  if (!deadline.is_infinite()) deadline = deadline - request.network_time;
  return std::min(deadline, request.cutoff);
}

}  // namespace fermata::engine
