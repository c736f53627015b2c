#include "model/latency.h"

#include <algorithm>
#include <cmath>

#include "base/status.h"
#include "model/latency_at.h"

namespace fermata {
namespace {

constexpr double kShortestMs = 1e-6;  // a nanosecond
constexpr double kLongestMs = 1e12;  // some thirty years; as nanoseconds it fits a Duration

double at(const LinearLatency& m, uint32_t b) { return m.alpha_ms * b + m.beta_ms; }
double at(const QuadraticLatency& m, uint32_t b) { return m.a * b * b + m.b * b + m.c; }
double at(const TableLatency& m, uint32_t b) {
  auto high = m.points_ms.lower_bound(b);
  if (high == m.points_ms.begin()) return high->second;
  auto low = std::prev(high);
  const double share = static_cast<double>(b - low->first) / (high->first - low->first);
  return low->second + share * (high->second - low->second);
}

}  // namespace

std::optional<double> latency_ms(const LatencyModel& model, uint32_t batch) {
  const auto* table = std::get_if<TableLatency>(&model);
  if (table && (table->points_ms.empty() || table->points_ms.rbegin()->first < batch)) return {};
  return std::visit([batch](const auto& m) { return at(m, batch); }, model);
}

absl::StatusOr<std::shared_ptr<const LatencyTable>> LatencyTable::make(const LatencyModel& model,
                                                                       uint32_t max_batch,
                                                                       uint64_t version) {
  if (max_batch == 0) return invalid("max_batch is 0, expected at least 1");
  if (const auto* table = std::get_if<TableLatency>(&model)) {
    if (table->points_ms.empty()) return invalid("the latency table is empty");
    max_batch = std::min(max_batch, table->points_ms.rbegin()->first);
  }
  auto result = std::make_shared<LatencyTable>();
  result->version_ = version;
  result->by_batch_.resize(max_batch + 1);
  for (uint32_t b = 1; b <= max_batch; ++b) {
    const double ms = *latency_ms(model, b);
    if (!(ms >= 0 && ms <= kLongestMs)) {
      return invalid("the latency of a batch of {} is {} ms, expected 0 to {}", b, ms, kLongestMs);
    }
    result->by_batch_[b] = std::max(result->by_batch_[b - 1], Duration::from_millis(ms));
  }
  if (result->by_batch_[1] == Duration()) {
    return invalid("the latency of a batch of 1 is {} ms, expected at least {}",
                   *latency_ms(model, 1), kShortestMs);
  }
  result->slope_ = max_batch > 1 ? result->by_batch_[max_batch] - result->by_batch_[max_batch - 1]
                                 : result->by_batch_[1];
  return result;
}

uint32_t LatencyTable::largest_within(Duration budget) const {
  const auto above = std::upper_bound(by_batch_.begin() + 1, by_batch_.end(), budget);
  return static_cast<uint32_t>(above - by_batch_.begin()) - 1;
}

}  // namespace fermata
