#include "simulate/arrivals.h"

#include <cmath>
#include <numeric>

#include "base/check.h"

namespace fermata::simulate {

double mean_rate(const TraceArrivals& trace) {
  const std::vector<double>& counts = *trace.counts;
  if (counts.empty()) return 0;
  return std::accumulate(counts.begin(), counts.end(), 0.0) / static_cast<double>(counts.size());
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
