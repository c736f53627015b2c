#include "simulate/goodput.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/status.h"
#include "simulate/driver.h"

namespace fermata::simulate {
namespace {

constexpr double kStepDown = 0.7;            // most policies reach that share of the bound
constexpr double kLowestShare = 1.0 / 1024;  // of the bound: below, nothing is called good

class Search {
 public:
  Search(Scenario scenario, const std::function<void(const GoodputStep&)>& progress)
      : scenario_(std::move(scenario)), progress_(progress) {}

  absl::StatusOr<Goodput> go();

 private:
  absl::StatusOr<bool> good_at(double rate_rps);

  Scenario scenario_;
  const std::function<void(const GoodputStep&)>& progress_;
  Goodput found_;
};

absl::StatusOr<bool> Search::good_at(double rate_rps) {
  scenario_.rate_rps = rate_rps;
  ASSIGN_OR_RETURN(Result result, run(scenario_));
  found_.steps.push_back({rate_rps, result.worst_bad_rate()});
  if (progress_) progress_(found_.steps.back());
  const bool good = result.worst_bad_rate() <= kAllowedBadRate;
  if (good) found_.rate_rps = rate_rps;
  if (good || found_.rate_rps == 0) found_.result = std::move(result);
  return good;
}

absl::StatusOr<Goodput> Search::go() {
  // 1 % may be dropped, and a short run may be lucky: start a little above the bound.
  double high = rate_bound(scenario_) * 1.05, low = high;
  if (high == 0) {
    RETURN_IF_ERROR(good_at(scenario_.rate_rps).status());
    found_.rate_rps = 0;
    return std::move(found_);
  }
  const double lowest = high * kLowestShare;
  ASSIGN_OR_RETURN(bool good, good_at(high));
  while (good) {  // only where a short run measures little: look further up
    low = high;
    high *= 2;
    ASSIGN_OR_RETURN(good, good_at(high));
  }
  while (found_.rate_rps == 0) {
    if (low <= lowest) return std::move(found_);
    high = low;
    low = std::max(low * kStepDown, lowest);
    RETURN_IF_ERROR(good_at(low).status());
  }
  while (high / low > kRatePrecision) {
    const double middle = std::sqrt(low * high);
    ASSIGN_OR_RETURN(good, good_at(middle));
    (good ? low : high) = middle;
  }
  return std::move(found_);
}

}  // namespace

double rate_bound(const Scenario& scenario) {
  double worker_seconds = 0, shares = 0;  // for one request, by share, on the fastest type
  for (const SimulatedModel& model : scenario.models) {
    double cheapest = HUGE_VAL;
    for (const LatencyModel& latency : model.latency) {
      const auto table = *LatencyTable::make(latency, model.max_batch);
      const uint32_t b = table->largest_within(model.slo);
      if (b > 0) cheapest = std::min(cheapest, (*table)(b).seconds() / b);
    }
    worker_seconds += model.share * cheapest;
    shares += model.share;
  }
  return scenario.worker_count() * shares / worker_seconds;
}

absl::StatusOr<Goodput> find_goodput(Scenario scenario,
                                     const std::function<void(const GoodputStep&)>& progress) {
  return Search(std::move(scenario), progress).go();
}

Json write_goodput(const Goodput& goodput) {
  Json out = write_result(goodput.result);
  out["goodput_rps"] = goodput.rate_rps;
  Json steps = Json::array();
  for (const GoodputStep& step : goodput.steps) {
    steps.push_back({{"rate_rps", step.rate_rps}, {"worst_bad_rate", step.worst_bad_rate}});
  }
  out["steps"] = std::move(steps);
  return out;
}

}  // namespace fermata::simulate
