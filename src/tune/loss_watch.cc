#include "tune/loss_watch.h"

#include <algorithm>
#include <map>
#include <string>

namespace fermata::tune {
namespace {

constexpr size_t kWatched = 10;  // seconds

uint64_t lost(const ServiceCounts& counts) {
  return counts.ended() - counts.of(engine::Outcome::kOnTime) -
         counts.of(engine::Outcome::kCancelled);
}

struct Ends {
  uint64_t ended = 0, lost = 0;
};

}  // namespace

bool LossWatch::due(const std::deque<Period>& seconds, Time now) const {
  if (now < again_) return false;
  std::map<std::string, Ends> services;
  const size_t first = seconds.size() - std::min(seconds.size(), kWatched);
  for (size_t i = first; i < seconds.size(); ++i) {
    for (const auto& [name, counts] : seconds[i].services) {
      if (!counts.called) continue;
      services[name].ended += counts.ended();
      services[name].lost += lost(counts);
    }
  }
  return std::any_of(services.begin(), services.end(), [](const auto& each) {
    const Ends& own = each.second;
    return own.lost >= kFew &&
           static_cast<double>(own.lost) > kTolerated * static_cast<double>(own.ended);
  });
}

Duration LossWatch::span(const std::deque<Period>& seconds) {
  Duration span;
  uint64_t requests = 0;
  for (auto each = seconds.rbegin(); each != seconds.rend() && span < kLongest; ++each) {
    for (const auto& [name, counts] : each->services) requests += counts.came;
    if (requests > kMostRequests) break;
    span += each->length;
  }
  return std::clamp(span, kShortest, kLongest);
}

void LossWatch::answered(Time now, Duration took) {
  again_ = now + std::max(kAgain, took * kShare);
}

}  // namespace fermata::tune
