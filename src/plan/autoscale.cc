#include "plan/autoscale.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "plan/placement/placement.h"

namespace fermata::plan {
namespace {
constexpr double kLargestBadRate = 0.9;    // r/(1-r) diverges; one window adds at most 9 N
constexpr double kIdlesMostly = 0.5;       // of the time: half of the workers could carry the load
constexpr double kMostlyInfeasible = 0.5;  // of the requests
}  // namespace

int64_t workers_to_add(const PoolUse& use, double bad_rate_threshold) {
  FERMATA_CHECK(use.bad_rate >= 0 && use.bad_rate <= 1);
  FERMATA_CHECK(use.idle_fraction >= 0 && use.idle_fraction <= 1);
  FERMATA_CHECK(use.infeasible_rate >= 0 && use.infeasible_rate <= 1);
  const double n = use.workers;
  if (use.bad_rate > bad_rate_threshold) {
    if (use.workers > 0 && use.idle_fraction > kIdlesMostly) return 0;
    const double r = std::min(use.bad_rate, kLargestBadRate);
    return std::max<int64_t>(1, std::ceil(n * r / (1 - r) - kRounding));
  }
  if (use.workers == 0 || use.infeasible_rate > kMostlyInfeasible) return 0;
  const auto idle = static_cast<int64_t>(std::floor(n * use.idle_fraction));
  return -std::min<int64_t>(idle, int64_t{use.workers} - 1);
}

uint32_t PoolSize::next(int64_t to_add, uint32_t planned) {
  const int64_t least = std::clamp(planned, least_, most_);
  if (to_add > 0) by_plan_ = 0;
  const int64_t beyond = std::max<int64_t>(0, std::min(by_plan_, size_ - least));
  const int64_t leave = std::clamp<int64_t>(-to_add, 0, beyond);
  spare_ = (calm_ == 0 ? -to_add : std::min(spare_, -to_add)) - leave;
  calm_ = to_add < 0 ? calm_ + 1 : 0;
  int64_t wanted = size_ + std::max<int64_t>(to_add, 0) - leave;
  by_plan_ -= leave;
  if (calm_ >= kCalm) {
    const int64_t half = std::max<int64_t>((spare_ + 1) / 2, 0);
    wanted -= half;
    by_plan_ = std::max<int64_t>(by_plan_ - half, 0);
    calm_ = 0;
  }
  by_plan_ += std::max<int64_t>(least - std::max<int64_t>(wanted, least_), 0);
  size_ = static_cast<uint32_t>(std::clamp<int64_t>(wanted, least, most_));
  return size_;
}

}  // namespace fermata::plan
