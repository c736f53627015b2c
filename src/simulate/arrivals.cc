#include "simulate/arrivals.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace fermata::simulate {

double mean_rate(const TraceArrivals& trace) {
  const std::vector<double>& counts = *trace.counts;
  if (counts.empty()) return 0;
  return std::accumulate(counts.begin(), counts.end(), 0.0) / static_cast<double>(counts.size());
}

double mean_rate(const RecordedArrivals& recorded) {
  const auto& requests = *recorded.requests;
  if (requests.empty()) return 0;
  const double seconds = std::max(requests.back().at.seconds(), 1.0);
  return static_cast<double>(requests.size()) / seconds;
}

Arrivals::Arrivals(ArrivalProcess process, double rate_rps, Time start, Random random)
    : process_(std::move(process)),
      random_(random),
      mean_gap_s_(rate_rps > 0 ? 1 / rate_rps : 0),
      start_(start),
      last_(start) {
  FERMATA_CHECK(rate_rps >= 0);
  if (const auto* trace = std::get_if<TraceArrivals>(&process_)) {
    const double mean = mean_rate(*trace);
    scale_ = mean > 0 ? rate_rps / mean : 0;
  }
}

Time Arrivals::next() {
  if (mean_gap_s_ == 0) return Time::infinite();
  last_ = std::visit([this](const auto& process) { return next(process); }, process_);
  return last_;
}

const RecordedArrivals::Request* Arrivals::recorded() const {
  const auto* own = std::get_if<RecordedArrivals>(&process_);
  return own == nullptr || drawn_ == 0 ? nullptr : &(*own->requests)[drawn_ - 1];
}

Time Arrivals::next(const RecordedArrivals& recorded) {
  if (drawn_ == recorded.requests->size()) return Time::infinite();
  return start_ + (*recorded.requests)[drawn_++].at;
}

Time Arrivals::next(const PoissonArrivals&) {
  return last_ + Duration::from_seconds(random_.exponential(mean_gap_s_));
}

Time Arrivals::next(const GammaArrivals& gamma) {
  return last_ + Duration::from_seconds(random_.gamma(gamma.shape, mean_gap_s_ / gamma.shape));
}

Time Arrivals::next(const UniformArrivals&) {
  return start_ + Duration::from_seconds((static_cast<double>(drawn_++) + 0.5) * mean_gap_s_);
}

Time Arrivals::next(const TraceArrivals& trace) {
  while (left_ == 0) {
    if (second_ == trace.counts->size()) return Time::infinite();
    // Rounding the running total, not each second, keeps the scaled sum exact.
    const double before = std::floor(cumulated_ + 0.5);
    cumulated_ += (*trace.counts)[second_++] * scale_;
    left_ = static_cast<uint64_t>(std::floor(cumulated_ + 0.5) - before);
    position_ = 0;
  }
  // The smallest of `left_` uniform points in what remains of the second.
  const double u = random_.positive();
  const double rest = portable_exp(portable_log(u) / static_cast<double>(left_--));
  position_ = 1 - (1 - position_) * rest;
  return start_ + Duration::from_seconds(static_cast<double>(second_ - 1) + position_);
}

}  // namespace fermata::simulate
