#include "estimate/forecast.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "base/random.h"

namespace fermata::estimate {
namespace {

TEST(LoadWindow, HoldsTheLast120SecondsAndTheHighestBeforeThem) {
  LoadWindow window;
  std::deque<double> all(kForecastWindow, 0);
  double highest = 0;
  Random random(3);
  for (int second = 0; second < 500; ++second) {
    const double load = static_cast<double>(random.below(100));
    highest = std::max(highest, load);
    window.add(load);
    all.push_back(load);
    all.pop_front();
    for (int k = 0; k < 120; ++k) {
      const bool known = k >= 120 - (second + 1);
      ASSERT_EQ(window.loads()[k], known ? all[k] : highest) << second << " " << k;
    }
  }
}

TEST(Forecast, ReactiveLooksBackTenSecondsAndTheMovingMaximumAll) {
  LoadWindow window;
  window.add(90);
  for (int i = 0; i < 109; ++i) window.add(10);
  window.add(40);
  for (int i = 0; i < 9; ++i) window.add(20);
  EXPECT_EQ(reactive_forecast(window.loads()), 40);
  EXPECT_EQ(moving_maximum(window.loads()), 90);
  window.add(20);
  EXPECT_EQ(reactive_forecast(window.loads()), 20);
  EXPECT_EQ(moving_maximum(window.loads()), 40);
}

// Of a Poisson process whose rate wanders: how many of the highest seconds are below the forecast.
double share_below(double quantile, uint64_t seed) {
  Random random(seed);
  SquareRootForecast forecast(quantile);
  std::deque<double> forecasts, loads;
  double rate = 50;
  int below = 0, all = 0;
  for (int second = 0; second < 40'000; ++second) {
    rate = std::clamp(rate + 0.3 * random.normal(), 20.0, 200.0);
    const auto load = static_cast<double>(random.poisson(rate));
    loads.push_back(load);
    if (loads.size() > kForecastHorizon) loads.pop_front();
    if (forecasts.size() == kForecastHorizon) {
      below += *std::max_element(loads.begin(), loads.end()) <= forecasts.front();
      ++all;
      forecasts.pop_front();
    }
    forecast.second(load);
    forecasts.push_back(forecast.forecast());
  }
  return static_cast<double>(below) / all;
}

TEST(Forecast, TheSquareRootKeepsItsQuantile) {
  EXPECT_NEAR(share_below(0.5, 1), 0.5, 0.05);
  EXPECT_NEAR(share_below(0.95, 2), 0.95, 0.02);
}

// Ten at once every fourth second.
TEST(Forecast, WhoMayWaitForABurstNeedsLessForIt) {
  const auto after = [](size_t burst) {
    SquareRootForecast forecast;
    forecast.set_burst(burst);
    for (int second = 0; second < 4000; ++second) forecast.second(second % 4 == 0 ? 10 : 0);
    return forecast.forecast();
  };
  EXPECT_NEAR(after(1), 10, 1);
  EXPECT_NEAR(after(2), 5, 0.5);
  EXPECT_NEAR(after(4), 2.5, 0.3);
}

// Requests that come as regularly as a clock, and not as a Poisson process does.
TEST(Forecast, RegularRequestsAreKnownWithinTwoMinutes) {
  SquareRootForecast forecast;
  for (int second = 0; second < 20; ++second) forecast.second(10);
  EXPECT_GT(forecast.forecast(), 15);
  for (int second = 0; second < 100; ++second) forecast.second(10);
  EXPECT_NEAR(forecast.forecast(), 10, 1);
}

TEST(Forecast, NothingIsExpectedOfNothing) {
  SquareRootForecast forecast;
  EXPECT_EQ(forecast.forecast(), 0);
  for (int i = 0; i < 100; ++i) forecast.second(0);
  EXPECT_EQ(forecast.forecast(), 0);
}

TEST(Smape, IsSymmetricAndAtMost200) {
  SmapeMeter meter;
  meter.add(0, 0);
  EXPECT_EQ(meter.percent(), 0);
  meter.add(10, 30);
  EXPECT_DOUBLE_EQ(meter.percent(), 50);  // of 0 and 100
  SmapeMeter other;
  other.add(30, 10);
  EXPECT_DOUBLE_EQ(other.percent(), 100);
  other.add(5, 0);
  EXPECT_DOUBLE_EQ(other.percent(), 150);
}

}  // namespace
}  // namespace fermata::estimate
