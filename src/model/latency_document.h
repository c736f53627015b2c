#pragma once

#include "base/document.h"
#include "model/latency.h"

namespace fermata {

// The contract's latency_ms: {"alpha", "beta"}, {"quadratic": [a, b, c]} or
// {"table": {"1": t1, ...}}. Refuses a time of one item that is not positive.
LatencyModel read_latency(Reader value);
Json write_latency(const LatencyModel& model);

}  // namespace fermata
