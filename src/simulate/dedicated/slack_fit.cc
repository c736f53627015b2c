#include "simulate/dedicated/slack_fit.h"

#include <algorithm>
#include <cmath>

namespace fermata::simulate {

SlackFit::SlackFit(std::vector<plan::StageOption> options, const std::vector<double>& scores) {
  std::sort(options.begin(), options.end(), [](const auto& a, const auto& b) {
    return std::tie(a.ms, b.batch) < std::tie(b.ms, a.batch);
  });
  std::vector<plan::StageOption> front;
  for (const plan::StageOption& option : options) {
    const auto better = [&](const plan::StageOption& other) {
      return other.batch >= option.batch && scores[other.variant] >= scores[option.variant];
    };
    if (std::none_of(front.begin(), front.end(), better)) front.push_back(option);
  }
  width_ = front.back().ms / kBuckets;
  const plan::StageOption* last = &front.front();
  for (size_t bucket = 1; bucket <= kBuckets; ++bucket) {
    const plan::StageOption* best = nullptr;
    for (const plan::StageOption& option : front) {
      const double limit = width_ * static_cast<double>(bucket);
      if (option.ms > limit * (1 + 1e-9) || option.ms <= limit - width_) continue;
      const bool better = !best || std::pair(option.batch, scores[option.variant]) >
                                       std::pair(best->batch, scores[best->variant]);
      if (better) best = &option;
    }
    if (best) last = best;
    by_bucket_.push_back(*last);
  }
}

const plan::StageOption& SlackFit::choose(double slack_ms) const {
  const double affordable = std::floor(std::max(0.0, slack_ms) / width_);
  const size_t bucket =
      affordable < 1 ? 0 : std::min(kBuckets, static_cast<size_t>(affordable)) - 1;
  return by_bucket_[bucket];
}

}  // namespace fermata::simulate
