#include "simulate/arrivals.h"

#include <gtest/gtest.h>

namespace fermata::simulate {
namespace {

TraceArrivals trace(std::vector<double> counts) {
  return {std::make_shared<const std::vector<double>>(std::move(counts))};
}

std::vector<Time> take(Arrivals arrivals, size_t n) {
  std::vector<Time> times;
  for (size_t i = 0; i < n; ++i) times.push_back(arrivals.next());
  return times;
}

TEST(Arrivals, UniformAreEvenlySpaced) {
  // 100/s: one every 10 ms, the first after 5 ms.
  const auto times = take({UniformArrivals{}, 100, Time(), Random(1)}, 3);
  EXPECT_EQ(times[0], Time() + Duration::millis(5));
  EXPECT_EQ(times[1], Time() + Duration::millis(15));
  EXPECT_EQ(times[2], Time() + Duration::millis(25));
}

TEST(Arrivals, MeanRateHoldsForEveryProcess) {
  for (const ArrivalProcess& process :
       {ArrivalProcess(PoissonArrivals{}), ArrivalProcess(GammaArrivals{0.3}),
        ArrivalProcess(UniformArrivals{})}) {
    const auto times = take({process, 5000, Time(), Random(2)}, 100'000);
    EXPECT_NEAR((times.back() - Time()).seconds(), 20, 0.5) << process.index();
    EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
  }
}

TEST(Arrivals, RateZeroNeverComes) {
  EXPECT_TRUE(Arrivals(PoissonArrivals{}, 0, Time(), Random(1)).next().is_infinite());
}

TEST(Arrivals, ARecordingComesAsItIsWhateverTheRate) {
  using Request = RecordedArrivals::Request;
  const RecordedArrivals recorded{std::make_shared<const std::vector<Request>>(std::vector<Request>{
      {Duration::millis(3), Duration::millis(9), 2}, {Duration::millis(3), {}, 1}})};
  Arrivals arrivals(recorded, 12'345, Time(), Random(1));
  EXPECT_EQ(arrivals.recorded(), nullptr);
  EXPECT_EQ(arrivals.next(), Time() + Duration::millis(3));
  EXPECT_EQ(arrivals.recorded()->items, 2u);
  EXPECT_EQ(arrivals.next(), Time() + Duration::millis(3));
  EXPECT_FALSE(arrivals.recorded()->slo.has_value());
  EXPECT_TRUE(arrivals.next().is_infinite());
}

TEST(Arrivals, TraceGivesItsCountsInEachSecondAndEnds) {
  Arrivals arrivals(trace({3, 0, 5}), 8.0 / 3, Time(), Random(3));
  std::vector<int> seen(3);
  Time last;
  for (Time t = arrivals.next(); !t.is_infinite(); t = arrivals.next()) {
    EXPECT_LE(last, t);
    last = t;
    ++seen[static_cast<size_t>((t - Time()).seconds())];
  }
  EXPECT_EQ(seen, (std::vector<int>{3, 0, 5}));
}

TEST(Arrivals, TraceIsScaledToTheRateWithoutLosingAny) {
  // Mean 1.5/s scaled to 15/s: ten times as many in all.
  Arrivals arrivals(trace({1, 2, 1, 2}), 15, Time(), Random(4));
  int n = 0;
  while (!arrivals.next().is_infinite()) ++n;
  EXPECT_EQ(n, 60);
}

}  // namespace
}  // namespace fermata::simulate
