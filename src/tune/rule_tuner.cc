#include "tune/rule_tuner.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/status.h"

namespace fermata::tune {
namespace {

constexpr Duration kWarmup = Duration::seconds(2);
constexpr Duration kAgain = Duration::seconds(20);  // after what could not be run
constexpr Duration kAtOnce = Duration::seconds(1);
constexpr int64_t kEnds = 4;  // the share of a stretch that either end has at most

}  // namespace

// Nothing is known of a load before its first request.
void RuleTuner::came(size_t service, Time at, Duration slo) {
  const bool is_first = !watch_.started();
  watch_.came(service, at, slo);
  if (is_first && at - begun_ > kAtOnce) choice_.forget(at, at);
}

bool RuleTuner::due(Time now) {
  if (watch_.changed(now)) choice_.forget(watch_.since(), now);
  return now >= choice_.next_trial();
}

Stretch RuleTuner::stretch(Time first, Duration longest_slo, Time now) const {
  const Time from =
      std::max({first, watch_.since(), now - kLongest, tried_until_ - kWarmup, Time()});
  const Duration end = (now - from) / kEnds;
  const Time until = now - std::min(longest_slo, end);
  const Time measured = std::max(from + std::min(kWarmup, end), std::min(tried_until_, until));
  return {from, measured, until, now};
}

absl::StatusOr<std::optional<size_t>> RuleTuner::try_on(const simulate::Scenario& scenario,
                                                        const Stretch& stretch, Time now) {
  std::vector<Losses> by_row;
  for (const RuleRow& row : rule_rows()) {
    auto losses = try_rules(scenario, row.rules);
    if (!losses.ok()) {
      choice_.put_off(now + kAgain);
      return losses.status();
    }
    by_row.push_back(*std::move(losses));
  }
  tried_until_ = stretch.until;
  return choice_.tried(by_row, now);
}

}  // namespace fermata::tune
