#include "policy/lookahead/worker_time.h"

namespace fermata::policy {
namespace {

constexpr double kLeastSeconds = 1e-9;

double seconds(const LatencyTable& latency) {
  return std::max(kLeastSeconds, latency(1).seconds());
}

}  // namespace

void WorkerTime::clear(uint32_t granted_type, size_t types, double others) {
  granted_ = granted_type;
  others_ = others;
  over_slowest_ = models_ = 0;
  speed_.assign(types, 0);
  free_ = false;
}

double WorkerTime::seconds_of_item(const LatencyTable& latency, Duration slo) {
  const Duration most = slo.is_infinite() ? Duration() : slo.scaled(kHalf);
  const uint32_t items = std::max(1u, latency.largest_within(most));
  return std::min(latency(1).seconds(), latency(items).seconds() / items);
}

void WorkerTime::add(std::span<const LatencyByType::Table> tables) {
  if (tables.size() == 1) return;
  const double here = seconds(*tables[granted_]);
  double slowest = 0;
  for (size_t type = 0; type < tables.size(); ++type) {
    const double there = seconds(*tables[type]);
    slowest = std::max(slowest, there);
    speed_[type] += here / there;
  }
  over_slowest_ += slowest / here;
  ++models_;
}

}  // namespace fermata::policy
