#include "tune/rule_choice.h"

#include <algorithm>
#include <cmath>

namespace fermata::tune {
namespace {

constexpr Duration kPause = Duration::seconds(10);  // between two moves
constexpr Duration kLeastGap = Duration::seconds(5), kMostGap = Duration::seconds(10);  // of trials
constexpr Duration kHalfLife = Duration::seconds(60);
constexpr double kFewOthers = 10;
constexpr double kOthers = 60;        // requests that a service has beside its own
constexpr double kAllServices = 0.1;  // weight of what is lost of all requests
constexpr double kLeastMargin = 0.001, kMarginShare = 0.1;
// All rows replay the same requests: chance parts them less than it does two loads.
constexpr double kChance = 0.5;
constexpr Duration kLittle = Duration::seconds(10);  // until then evidence is little
constexpr double kOfLittle = 6;                      // margins for what chance does then

}  // namespace

RuleChoice::RuleChoice(size_t rows, size_t active, Time now)
    : sums_(rows),
      active_(active),
      active_since_(now),
      known_since_(now),
      last_trial_(now),
      next_trial_(now + kLeastGap) {}

void RuleChoice::forget(Time since, Time now) {
  for (Losses& each : sums_) each.clear();
  known_since_ = last_trial_ = since;
  next_trial_ = std::max(now, since + kLeastGap);
}

std::optional<double> RuleChoice::loss(size_t row) const {
  if (sums_[row].empty()) return std::nullopt;
  return worst_of(row);
}

double RuleChoice::worst_of(size_t row) const {
  Loss all;
  for (const auto& [service, each] : sums_[row]) {
    all.requests += each.requests;
    all.lost += each.lost;
  }
  double worst = 0;
  for (const auto& [service, each] : sums_[row]) {
    if (each.requests == 0) continue;
    worst = std::max(worst, (each.lost + kOthers * all.share()) / (each.requests + kOthers));
  }
  return (worst + kAllServices * all.share()) / (1 + kAllServices);
}

// By how much a row must be better than the one that holds: what chance may make of the worst
// service's requests, and a little.
double RuleChoice::margin(size_t better, Time now) const {
  const double loss = worst_of(active_);
  double fewest = 0;
  for (const Losses& sums : {sums_[active_], sums_[better]}) {
    const auto worst = std::max_element(sums.begin(), sums.end(), [](const auto& a, const auto& b) {
      return a.second.share() < b.second.share();
    });
    if (worst == sums.end()) continue;
    if (fewest == 0 || worst->second.requests < fewest) fewest = worst->second.requests;
  }
  const double of = fewest + kFewOthers;
  const double chance = now - known_since_ < kLittle ? kOfLittle * kChance : kChance;
  return std::max(kLeastMargin, kMarginShare * loss) + chance * std::sqrt((loss + 1 / of) / of);
}

std::optional<size_t> RuleChoice::tried(const std::vector<Losses>& by_row, Time now) {
  const double kept = std::exp2(-((now - last_trial_).seconds() / kHalfLife.seconds()));
  for (size_t row = 0; row < sums_.size(); ++row) {
    for (auto& [service, sum] : sums_[row]) sum = {sum.requests * kept, sum.lost * kept};
    for (const auto& [service, loss] : by_row[row]) {
      sums_[row][service].requests += loss.requests;
      sums_[row][service].lost += loss.lost;
    }
  }
  ++trials_;
  last_trial_ = now;
  next_trial_ = now + std::clamp((now - known_since_) / 2, kLeastGap, kMostGap);
  if (moved_ && now - *moved_ < kPause) {
    next_trial_ = std::min(next_trial_, std::max(*moved_ + kPause, now + kLeastGap));
    return std::nullopt;
  }
  size_t best = active_;
  for (size_t row = 0; row < sums_.size(); ++row) {
    if (worst_of(row) < worst_of(best)) best = row;
  }
  if (best == active_ || worst_of(active_) - worst_of(best) <= margin(best, now))
    return std::nullopt;
  active_ = best;
  active_since_ = now;
  moved_ = now;
  ++moves_;
  return best;
}

}  // namespace fermata::tune
