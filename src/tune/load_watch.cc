#include "tune/load_watch.h"

#include <algorithm>
#include <cmath>

namespace fermata::tune {
namespace {

constexpr int64_t kLately = 4, kLeastBefore = 4, kMostBefore = 60;  // seconds
constexpr Duration kSinceChange = Duration::seconds(2);             // that a change is found after
constexpr double kSigmas = 5, kFewRequests = 6;                     // the latter in kLately
constexpr double kRateChange = 0.3, kSloChange = 0.15, kBurstChange = 3;
constexpr double kLeastSlos = 20, kLeastInBursts = 100;

int64_t second_of(Time at) { return at.nanos() / Duration::seconds(1).nanos(); }

}  // namespace

void LoadWatch::Sum::add(const Second& second) {
  count += second.count;
  count_squares += second.count * second.count;
  squares += second.squares;
  slos += second.slos;
  log_slo += second.log_slo;
  log_slo_squared += second.log_slo_squared;
}

double LoadWatch::Sum::variance() const {
  const double mean = rate();
  return std::max(mean, count_squares / seconds - mean * mean);
}

double LoadWatch::Sum::dispersion() const {
  const double bins = seconds * kBinsInSecond, mean = count / bins;
  return mean > 0 ? std::max(0.0, squares / bins - mean * mean) / mean : 1;
}

double LoadWatch::Sum::slo_variance() const {
  return std::max(0.0, log_slo_squared / slos - mean_slo() * mean_slo());
}

void LoadWatch::end_bin(Service& service) {
  if (!service.seconds.empty()) service.seconds.back().squares += service.in_bin * service.in_bin;
  service.in_bin = 0;
}

void LoadWatch::came(size_t service, Time at, Duration slo) {
  if (!started_) {
    started_ = true;
    since_ = at;
  }
  if (service >= services_.size()) services_.resize(service + 1);
  Service& own = services_[service];
  const int64_t bin = at.nanos() / kBin.nanos();
  if (bin > own.bin) {
    end_bin(own);
    own.bin = bin;
  }
  if (own.seconds.empty() || second_of(at) > own.seconds.back().number) {
    own.seconds.push_back({.number = second_of(at)});
  }
  own.in_bin += 1;
  Second& second = own.seconds.back();
  second.count += 1;
  if (slo.is_infinite() || slo <= Duration()) return;
  const double log_slo = std::log(slo.seconds());
  second.slos += 1;
  second.log_slo += log_slo;
  second.log_slo_squared += log_slo * log_slo;
}

bool LoadWatch::differ(const Sum& before, const Sum& lately) {
  const double expected = before.rate() * lately.seconds;
  const double deviation =
      std::sqrt(before.variance() * lately.seconds * (1 + lately.seconds / before.seconds));
  const double change = std::abs(lately.count - expected);
  if (change > kSigmas * deviation + kFewRequests &&
      change > kRateChange * std::max(expected, lately.count)) {
    return true;
  }
  if (before.slos >= kLeastSlos && lately.slos >= kLeastSlos) {
    const double sigma =
        std::sqrt(before.slo_variance() / before.slos + before.slo_variance() / lately.slos);
    const double moved = std::abs(before.mean_slo() - lately.mean_slo());
    if (moved > kSigmas * sigma && moved > kSloChange) return true;
  }
  if (std::min(before.count, lately.count) < kLeastInBursts) return false;
  const double was = before.dispersion(), is = lately.dispersion();
  return std::max(was, is) > 2 && (is > kBurstChange * was || was > kBurstChange * is);
}

bool LoadWatch::changed(Time now) {
  if (!started_) return false;
  const int64_t over = second_of(now);  // the first second that is not
  const int64_t first = std::max(second_of(since_) + 1, over - kMostBefore - kLately);
  const int64_t lately_from = over - kLately;
  if (lately_from - first < kLeastBefore) return false;
  for (Service& service : services_) {
    if (service.bin < now.nanos() / kBin.nanos()) end_bin(service);
    while (!service.seconds.empty() && service.seconds.front().number < first) {
      service.seconds.pop_front();
    }
    Sum before{.seconds = static_cast<double>(lately_from - first)};
    Sum lately{.seconds = static_cast<double>(kLately)};
    for (const Second& second : service.seconds) {
      if (second.number < over) (second.number < lately_from ? before : lately).add(second);
    }
    if (!differ(before, lately)) continue;
    since_ = now - kSinceChange;
    return true;
  }
  return false;
}

}  // namespace fermata::tune
