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
constexpr int64_t kUnseenPart = 10;        // of the workers: HPA's tolerance
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

double load_of(const PoolUse& use) {
  return use.workers * (1 - use.idle_fraction) / (1 - std::min(use.bad_rate, kLargestBadRate));
}

uint32_t PoolSize::next(const Window& window) {
  const int64_t least = std::clamp(window.planned, least_, most_), to_add = window.to_add;
  if (to_add > 0) {
    by_plan_ = 0;
    lacked_ = {std::min(window.there.value_or(size_), size_), window.load};
  }
  const int64_t beyond = std::max<int64_t>(0, std::min(by_plan_, size_ - least));
  const int64_t leave = std::clamp<int64_t>(-to_add, 0, beyond);
  spare_ = (calm_ == 0 ? -to_add : std::min(spare_, -to_add)) - leave;
  calm_ = to_add < 0 ? calm_ + 1 : 0;
  int64_t wanted = size_ + std::max<int64_t>(to_add, 0) - leave;
  by_plan_ -= leave;
  if (calm_ >= kCalm) {
    int64_t half = std::max<int64_t>((spare_ + 1) / 2, 0);
    if (window.load > kFallen * lacked_.load) {
      half = std::clamp<int64_t>(wanted - int64_t{lacked_.size} - 1, 0, half);
    }
    wanted -= half;
    by_plan_ = std::max<int64_t>(by_plan_ - half, 0);
    calm_ = 0;
  }
  by_plan_ += std::max<int64_t>(least - std::max<int64_t>(wanted, least_), 0);
  size_ = static_cast<uint32_t>(std::clamp<int64_t>(wanted, least, most_));
  return size_;
}

WantedWorkers::WantedWorkers(uint32_t most, uint32_t there)
    : size_(1, most, std::clamp(there, 1u, most)) {}

uint32_t WantedWorkers::next(const PoolUse& use) {
  const int64_t there = use.workers, size = size_.size();
  const double busy = use.workers * (1 - use.idle_fraction);
  const auto needed = static_cast<int64_t>(std::ceil(busy - kRounding));
  int64_t to_add = workers_to_add(use);
  if (to_add > 0) {
    const int64_t seen = there + there / kUnseenPart + 1;  // by who ignores a tenth
    to_add = std::max<int64_t>(std::max(there + to_add, seen) - size, 0);
  } else if (needed > size) {  // of workers that are to leave
    to_add = needed - size;
  } else if (to_add < 0) {
    to_add = std::min<int64_t>(there + to_add - size, 0);
  }
  return size_.next({.to_add = to_add, .load = load_of(use), .there = use.workers});
}

}  // namespace fermata::plan
