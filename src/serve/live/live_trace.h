#pragma once

#include <string>

#include "tune/recording.h"

namespace fermata::serve {

// A recording as a Chrome trace, which opens in Perfetto: a row for each worker with its batches
// and loads, and the requests of each service from their arrival to their end.
std::string trace_json(const tune::Recording& recording);

}  // namespace fermata::serve
