#pragma once

#include <optional>

#include "model/latency.h"

namespace fermata {

// As the profile states it, not rounded; none above a table's last batch size. batch >= 1.
std::optional<double> latency_ms(const LatencyModel& model, uint32_t batch);

}  // namespace fermata
