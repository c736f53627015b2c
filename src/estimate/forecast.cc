#include "estimate/forecast.h"

#include <algorithm>
#include <cmath>

namespace fermata::estimate {

void LoadWindow::add(double load) {
  highest_ = std::max(highest_, load);
  if (end_ == loads_.size()) {  // once in 120 seconds
    std::copy(loads_.begin() + kForecastWindow, loads_.end(), loads_.begin());
    end_ = kForecastWindow;
  }
  loads_[end_++] = load;
  ++seconds_;
  if (seconds_ >= kForecastWindow) return;
  const auto known = static_cast<std::ptrdiff_t>(seconds_);
  std::fill(loads_.begin(), loads_.begin() + static_cast<std::ptrdiff_t>(end_) - known, highest_);
}

LoadSpan LoadWindow::loads() const {
  return LoadSpan(loads_.data() + end_ - kForecastWindow, kForecastWindow);
}

double reactive_forecast(LoadSpan loads) {
  return *std::max_element(loads.end() - kReactiveSeconds, loads.end());
}

double moving_maximum(LoadSpan loads) { return *std::max_element(loads.begin(), loads.end()); }

SquareRootForecast::SquareRootForecast(double quantile) : quantile_(quantile) {}

void SquareRootForecast::set_burst(size_t seconds) {
  burst_ = std::clamp(seconds, size_t{1}, kForecastHorizon);
}

double SquareRootForecast::mean_of_burst() const {
  const size_t count = std::min<size_t>(burst_, seconds_ + 1);
  double sum = 0;
  for (size_t i = 0; i < count; ++i) sum += loads_[(seconds_ - i) % kForecastHorizon];
  return sum / static_cast<double>(count);
}

void SquareRootForecast::second(double load) {
  const size_t slot = seconds_ % kForecastHorizon;
  if (seconds_ == 0) level_ = load;
  const double before = levels_[slot];  // the level 20 seconds ago; now the highest since is known
  loads_[slot] = load;
  means_[slot] = mean_of_burst();
  if (seconds_ >= kForecastHorizon && before > 0) {
    const double highest = *std::max_element(means_.begin(), means_.end());
    const double observed = (highest - before) / deviation(before);
    const auto learned = static_cast<double>(seconds_ - kForecastHorizon);
    const double step = std::max(kStep, kFirstSteps / (kSettling + learned));
    factor_ += step * (observed > factor_ ? quantile_ : quantile_ - 1);
  }
  level_ += (load - level_) / kMemory;
  levels_[slot] = level_;
  ++seconds_;
}

double SquareRootForecast::deviation(double rate) const {
  return std::sqrt(rate / static_cast<double>(burst_));
}

double SquareRootForecast::forecast() const {
  return std::max(0.0, level_ + factor_ * deviation(level_));
}

BurstForecast::BurstForecast(double quantile) {
  for (size_t i = 0; i < kSeconds.size(); ++i) {
    by_length_[i] = SquareRootForecast(quantile);
    by_length_[i].set_burst(kSeconds[i]);
  }
}

void SmapeMeter::add(double forecast, double actual) {
  ++count_;
  if (forecast != actual)
    sum_ += 2 * std::abs(forecast - actual) / (std::abs(forecast) + std::abs(actual));
}

double SmapeMeter::percent() const {
  return count_ == 0 ? 0 : 100 * sum_ / static_cast<double>(count_);
}

}  // namespace fermata::estimate
