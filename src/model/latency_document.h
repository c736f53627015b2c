#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/document.h"
#include "model/latency.h"

namespace fermata {

// The contract's latency_ms: {"alpha", "beta"}, {"quadratic": [a, b, c]} or
// {"table": {"1": t1, ...}}. Refuses a time of one item that is not positive.
LatencyModel read_latency(Reader value);
// One of these for all types of workers, as the only element, or a map from each type to
// one: by type.
std::vector<LatencyModel> read_latency_by_type(Reader value, std::span<const std::string> types);
// Refuses those that are no latencies of batches of up to `max_batch` items; what has failed says
// no more.
void check_latencies(Reader value, std::span<const LatencyModel> latencies, uint32_t max_batch);
Json write_latency(const LatencyModel& model);

}  // namespace fermata
