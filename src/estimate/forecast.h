#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace fermata::estimate {

// The load that a planner should be ready for: the highest of the next 20 seconds, from what came
// in each of the last 120 (IPA, section 3). Loads are requests in one whole second.
constexpr size_t kForecastWindow = 120;
constexpr size_t kForecastHorizon = 20;
constexpr size_t kReactiveSeconds = 10;  // between two plans of the paper's adapter

// The loads of the last 120 seconds, the newest last; before there are so many, the highest so far
// stands in for what is missing. O(1) a second.
class LoadWindow {
 public:
  void add(double load);
  bool empty() const { return seconds_ == 0; }
  std::span<const double, kForecastWindow> loads() const;

 private:
  std::array<double, 2 * kForecastWindow> loads_{};  // the window ends at end_
  size_t end_ = kForecastWindow;
  uint64_t seconds_ = 0;
  double highest_ = 0;
};

using LoadSpan = std::span<const double, kForecastWindow>;

// What came in the last 10 seconds at most will come again.
double reactive_forecast(LoadSpan loads);
// The highest of the last 120 seconds will come again.
double moving_maximum(LoadSpan loads);

// Learns nothing in advance: the rate is an average that forgets within 15 seconds; by how many of
// its square roots (the deviation of a Poisson process) the highest second lies above it is
// observed, and a quantile of these observations (by stochastic approximation) is expected again.
class SquareRootForecast {
 public:
  // Of highest seconds, so many lie below the forecast.
  explicit SquareRootForecast(double quantile = 0.5);
  // The rate that is forecast is that of the highest so many seconds in a row, up to the horizon:
  // who may wait that long rides out what is shorter. 1 at first.
  void set_burst(size_t seconds);
  void second(double load);  // O(20)
  double forecast() const;   // 0 before the first second

 private:
  static constexpr double kMemory = 15;        // seconds
  static constexpr double kFirstFactor = 1.8;  // of a Poisson process' highest of 20 seconds
  static constexpr double kStep = 0.01;        // a second, in the long run
  static constexpr double kFirstSteps = 2, kSettling = 20;  // of the second n: 2 / (20 + n)

  double mean_of_burst() const;
  double deviation(double rate) const;  // of a Poisson process' mean over a burst

  double quantile_;
  // Of the last 20 seconds, in turn: levels, loads, and means of the loads over the burst before.
  std::array<double, kForecastHorizon> levels_{}, loads_{}, means_{};
  size_t burst_ = 1;
  uint64_t seconds_ = 0;
  double level_ = 0, factor_ = kFirstFactor;
};

// The same for bursts of several lengths.
class BurstForecast {
 public:
  static constexpr std::array<size_t, 5> kSeconds = {1, 2, 4, 8, 16};
  explicit BurstForecast(double quantile = 0.5);
  void second(double load) {
    for (SquareRootForecast& each : by_length_) each.second(load);
  }
  // Of bursts of kSeconds[length].
  double forecast(size_t length) const { return by_length_[length].forecast(); }

 private:
  std::array<SquareRootForecast, kSeconds.size()> by_length_;
};

// Symmetric mean absolute percentage error, in percent: 200 |f - a| / (f + a) on average.
class SmapeMeter {
 public:
  void add(double forecast, double actual);  // both 0: no error
  double percent() const;

 private:
  double sum_ = 0;
  uint64_t count_ = 0;
};

}  // namespace fermata::estimate
