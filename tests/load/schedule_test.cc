#include "load/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

namespace fermata::load {
namespace {

using Row = std::tuple<int64_t, uint32_t, uint32_t>;  // ms after the start, service, record
using testing::ElementsAre;

LoadSpec two_services() {
  LoadSpec spec;
  spec.arrivals = simulate::UniformArrivals{};
  spec.services = {{.name = "a", .rate_rps = 100}, {.name = "b", .rate_rps = 50}};
  EXPECT_TRUE(complete(spec).ok());
  return spec;
}

TEST(Schedule, MergesServicesByTimeAndUsesRecordsInTurn) {
  const Time start = Time() + Duration::seconds(1);
  Schedule schedule(two_services(), {2, 1}, start);
  std::vector<Row> rows;
  for (int i = 0; i < 6; ++i) {
    const Sending sending = *schedule.next();
    rows.emplace_back((sending.scheduled - start).nanos() / 1'000'000, sending.service,
                      sending.record);
  }
  // Gaps of 10 and 20 ms, the first half a gap after the start.
  EXPECT_THAT(rows, ElementsAre(Row(5, 0, 0), Row(10, 1, 0), Row(15, 0, 1), Row(25, 0, 0),
                                Row(30, 1, 0), Row(35, 0, 1)));
}

TEST(Schedule, SameTimesGoByService) {
  LoadSpec spec = two_services();
  spec.services[1].rate_rps = 100;
  Schedule schedule(spec, {1, 1}, Time());
  for (int i = 0; i < 10; ++i) EXPECT_EQ(schedule.next()->service, i % 2);
}

TEST(Schedule, TheSeedDecidesAndServicesDoNotShareDraws) {
  LoadSpec spec = two_services();
  for (ServiceLoad& service : spec.services) service.arrivals = simulate::PoissonArrivals{};
  LoadSpec alone = spec;
  alone.services.pop_back();
  Schedule both(spec, {1, 1}, Time()), one(alone, {1}, Time());
  for (int i = 0; i < 20; ++i) {
    std::optional<Sending> sending = both.next();
    while (sending->service != 0) sending = both.next();
    EXPECT_EQ(sending->scheduled, one.next()->scheduled);
  }
}

TEST(Schedule, EndsWithItsTraces) {
  LoadSpec spec = two_services();
  spec.services.pop_back();
  spec.services[0].rate_rps = 3;
  spec.services[0].arrivals =
      simulate::TraceArrivals{std::make_shared<const std::vector<double>>(std::vector<double>{3})};
  Schedule schedule(spec, {1}, Time());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(schedule.next().has_value());
  EXPECT_FALSE(schedule.next().has_value());
}

}  // namespace
}  // namespace fermata::load
