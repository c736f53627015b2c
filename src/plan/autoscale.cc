#include "plan/autoscale.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "plan/placement/placement.h"

namespace fermata::plan {
namespace {
constexpr double kLargestBadRate = 0.9;  // r/(1-r) diverges; one window adds at most 9 N
constexpr double kIdlesMostly = 0.5;     // of the time: half of the workers could carry the load
}  // namespace

int64_t workers_to_add(const PoolUse& use, double bad_rate_threshold) {
  FERMATA_CHECK(use.bad_rate >= 0 && use.bad_rate <= 1);
  FERMATA_CHECK(use.idle_fraction >= 0 && use.idle_fraction <= 1);
  const double n = use.workers;
  if (use.bad_rate > bad_rate_threshold) {
    if (use.workers > 0 && use.idle_fraction > kIdlesMostly) return 0;
    const double r = std::min(use.bad_rate, kLargestBadRate);
    return std::max<int64_t>(1, std::ceil(n * r / (1 - r) - kRounding));
  }
  if (use.workers == 0) return 0;
  const auto idle = static_cast<int64_t>(std::floor(n * use.idle_fraction));
  return -std::min<int64_t>(idle, int64_t{use.workers} - 1);
}

uint32_t PoolSize::next(int64_t to_add, uint32_t planned) {
  spare_ = calm_ == 0 ? -to_add : std::min(spare_, -to_add);
  calm_ = to_add < 0 ? calm_ + 1 : 0;
  given_up_ = std::max<int64_t>(given_up_ + planned_ - planned, 0);
  planned_ = planned;
  const int64_t leave = std::clamp<int64_t>(-to_add, 0, given_up_);
  given_up_ -= leave;
  spare_ = std::max<int64_t>(spare_ - leave, 0);
  int64_t wanted = size_ + std::max<int64_t>(to_add, 0) - leave;
  if (calm_ >= kCalm) {
    wanted -= (spare_ + 1) / 2;
    calm_ = 0;
  }
  wanted = std::max<int64_t>(wanted, planned);
  size_ = static_cast<uint32_t>(std::clamp<int64_t>(wanted, least_, most_));
  return size_;
}

}  // namespace fermata::plan
