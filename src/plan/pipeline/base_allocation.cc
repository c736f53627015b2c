#include "plan/pipeline/base_allocation.h"

#include <algorithm>

#include "model/latency_at.h"

namespace fermata::plan {
namespace {

constexpr double kStageSlaFactor = 5;

double best_rps(const LatencyModel& latency, const std::vector<uint32_t>& batch_sizes) {
  double best = 0;
  for (const uint32_t batch : batch_sizes) {
    if (const auto ms = latency_ms(latency, batch)) best = std::max(best, batch / *ms * 1e3);
  }
  return best;
}

double largest_ms(const LatencyModel& latency, const std::vector<uint32_t>& batch_sizes) {
  double largest = 0;
  for (const uint32_t batch : batch_sizes) {
    largest = std::max(largest, latency_ms(latency, batch).value_or(0));
  }
  return largest;
}

}  // namespace

BaseAllocation base_allocation(const std::vector<LatencyByCores>& variants,
                               const std::vector<uint32_t>& batch_sizes, double threshold_rps) {
  std::vector<LatencyByCores::const_iterator> at;
  for (const LatencyByCores& variant : variants) at.push_back(variant.begin());
  BaseAllocation result;
  for (bool changed = true; changed;) {
    changed = false;
    double sum = 0, count = 0;
    for (size_t v = 0; v < variants.size(); ++v) {
      if (at[v] == variants[v].end()) continue;
      sum += latency_ms(at[v]->second, 1).value_or(0);
      ++count;
    }
    result.sla_ms = count > 0 ? kStageSlaFactor * sum / count : 0;
    for (size_t v = 0; v < variants.size(); ++v) {
      if (at[v] == variants[v].end()) continue;
      const LatencyModel& latency = at[v]->second;
      if (best_rps(latency, batch_sizes) >= threshold_rps &&
          largest_ms(latency, batch_sizes) <= result.sla_ms) {
        continue;
      }
      ++at[v];
      changed = true;
    }
  }
  for (size_t v = 0; v < variants.size(); ++v) {
    result.cores.push_back(at[v] == variants[v].end() ? std::nullopt : std::optional(at[v]->first));
  }
  return result;
}

}  // namespace fermata::plan
