#include "engine/services/measured_runs.h"

#include <algorithm>
#include <utility>

namespace fermata::engine {
namespace {

constexpr double kKept = 0.7;  // of what was measured before, at a look with something new

}  // namespace

void MeasuredRuns::look(VariantId variant, const LatencyTable& believed,
                        const std::map<uint32_t, BatchSizeStatistics>& batches) {
  const bool begins = variant_ != variant;
  Sums fresh;
  for (const auto& [items, known] : batches) {
    const DurationCount all{
        known.compute_infer.count,
        known.compute_input.total + known.compute_infer.total + known.compute_output.total};
    const DurationCount before = std::exchange(seen_[items], all);
    if (all.count <= before.count) continue;
    const uint32_t size = std::clamp(items, 1u, believed.max_batch());
    fresh.ran_ms += (all.total - before.total).millis();
    fresh.believed_ms += believed(size).millis() * static_cast<double>(all.count - before.count);
  }
  if (begins) {
    sums_ = variant_ ? Sums{} : fresh;
    variant_ = variant;
  } else if (fresh.believed_ms > 0) {
    sums_ = {kKept * sums_.ran_ms + fresh.ran_ms, kKept * sums_.believed_ms + fresh.believed_ms};
  }
}

std::optional<double> MeasuredRuns::ratio() const {
  if (sums_.believed_ms <= 0 || sums_.ran_ms <= 0) return std::nullopt;
  return sums_.ran_ms / sums_.believed_ms;
}

}  // namespace fermata::engine
