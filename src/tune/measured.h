#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/time.h"
#include "model/latency.h"
#include "tune/recording.h"

namespace fermata::tune {

// How long batches of one model took on one type of worker: the means of the sizes that ran, and
// others as the profile has them, scaled by how the measured compare to it. Non-decreasing.
class MeasuredLatency {
 public:
  void add(uint32_t items, Duration run);
  bool empty() const { return sizes_.empty(); }
  TableLatency table(const LatencyTable& profile) const;

 private:
  struct Size {
    uint64_t runs = 0;
    Duration total;
  };
  std::map<uint32_t, Size> sizes_;
};

using MeasuredModels = std::map<VariantId, std::vector<MeasuredLatency>>;  // by type of worker
// `types`: of each worker.
MeasuredModels measured_models(const Recording& recording, std::span<const uint32_t> types);

// What the server itself takes: from a decision until its batch starts on an idle worker, and from
// the end of a batch to the reply.
struct MeasuredDelays {
  Duration start, reply;
};
MeasuredDelays measured_delays(const Recording& recording);

}  // namespace fermata::tune
