#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "base/random.h"
#include "base/time.h"

namespace fermata::simulate {

// When requests come. `simulate`, `goodput` and `load` all draw from these.
struct PoissonArrivals {};
// Gaps drawn from a gamma distribution of this shape; 1 is Poisson, smaller is burstier.
struct GammaArrivals {
  double shape = 1;
};
// Below, so many gaps are nothing at all that time stands still; documents have none.
inline constexpr double kLeastShape = 1e-3, kMostShape = 1e6;
struct UniformArrivals {};
// So many in each second, at random moments within it, then no more.
struct TraceArrivals {
  std::shared_ptr<const std::vector<double>> counts;
};
// Each request as it came once, in the order of time, then no more.
struct RecordedArrivals {
  struct Request {
    Duration at;                       // from the start
    std::optional<Duration> slo = {};  // none: the source's own; infinite: no deadline
    uint32_t items = 1;
  };
  std::shared_ptr<const std::vector<Request>> requests;
};
using ArrivalProcess =
    std::variant<PoissonArrivals, GammaArrivals, UniformArrivals, TraceArrivals, RecordedArrivals>;

// The requests a second of a trace or recording, averaged over its length.
double mean_rate(const TraceArrivals& trace);
double mean_rate(const RecordedArrivals& recorded);

// Arrival times of one source, pulled one by one; an endless stream but for
// traces and recordings. Times never go back, several may be equal. O(1) each.
class Arrivals {
 public:
  // rate_rps >= 0 is the mean; a trace's counts are scaled to it, a recording comes as it is. The
  // first uniform arrival comes half a gap after `start`, others as the process says.
  Arrivals(ArrivalProcess process, double rate_rps, Time start, Random random);

  // Time::infinite(): no more.
  Time next();
  // The request that next() gave last, of a recording; else null.
  const RecordedArrivals::Request* recorded() const;

 private:
  Time next(const PoissonArrivals&);
  Time next(const GammaArrivals& gamma);
  Time next(const UniformArrivals&);
  Time next(const TraceArrivals& trace);
  Time next(const RecordedArrivals& recorded);

  ArrivalProcess process_;
  Random random_;
  double mean_gap_s_;
  Time start_, last_;
  uint64_t drawn_ = 0;
  // Of a trace: its scale, the current second, how many are still to come in it
  // and where in it the last one came.
  double scale_ = 1, cumulated_ = 0, position_ = 0;
  uint64_t second_ = 0, left_ = 0;
};

}  // namespace fermata::simulate
