#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/document.h"
#include "model/latency.h"
#include "model/profile.h"

namespace fermata::simulate {

// How long something runs: `latency_ms`, or `profile`, the name of a profile.json of `fermata
// profile`, for all types of workers or for each.
struct RunTimes {
  std::vector<LatencyModel> latency;  // by type of worker
  std::optional<Profile> profile;     // the first one read
};

// Reads files: blocks. A profile counts with what nine of ten runs took at most, as in the server.
RunTimes read_run_times(ObjectReader& fields, std::span<const std::string> worker_types);

}  // namespace fermata::simulate
