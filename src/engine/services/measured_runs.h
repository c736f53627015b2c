#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "base/ids.h"
#include "engine/snapshot.h"
#include "model/latency.h"

namespace fermata::engine {

// How long the batches of one variant take on what its clients send, whatever their shapes, beside
// what its profile says. Older ones count less at every look. Not synchronised; pure.
class MeasuredRuns {
 public:
  struct Sums {
    double ran_ms = 0, believed_ms = 0;
  };

  // `batches` as counted since the server started: what came since the last look. Another variant,
  // as after a reload, begins anew with the next.
  void look(VariantId variant, const LatencyTable& believed,
            const std::map<uint32_t, BatchSizeStatistics>& batches);
  const Sums& sums() const { return sums_; }
  // Measured over profiled time; none before any.
  std::optional<double> ratio() const;

 private:
  std::optional<VariantId> variant_;
  std::map<uint32_t, DurationCount> seen_;  // by items of a batch
  Sums sums_;
};

}  // namespace fermata::engine
