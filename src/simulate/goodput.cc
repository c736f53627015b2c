#include "simulate/goodput.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/algorithm/container.h"
#include "base/status.h"
#include "simulate/driver.h"

namespace fermata::simulate {
namespace {

constexpr double kStepDown = 0.7;            // most policies reach that share of the bound
constexpr double kLowestShare = 1.0 / 1024;  // of the bound: below, nothing is called good
constexpr double kFewRequests = 100;         // for the result where no rate is good
constexpr double kMostRequests = 1e9;        // of a run
// Workers to try: so many times as many as full batches would keep busy, and so many at least.
constexpr double kMostTimesIdeal = 64;
constexpr double kFewWorkers = 64, kManyWorkers = 65'536;

// Of a worker, for one item in the largest batch within `slo`, on the fastest type.
double seconds_of(const std::vector<LatencyModel>& latency, uint32_t max_batch, Duration slo) {
  double cheapest = HUGE_VAL;
  for (const LatencyModel& each : latency) {
    const auto table = *LatencyTable::make(each, max_batch);
    const uint32_t b = table->largest_within(slo);
    if (b > 0) cheapest = std::min(cheapest, (*table)(b).seconds() / b);
  }
  return cheapest;
}

double seconds_of(const Scenario& scenario, size_t source);

// What one request takes at least where one of these answers it.
double least_of(const Scenario& scenario, const std::vector<SimulatedVariant>& members) {
  double least = HUGE_VAL;
  for (const SimulatedVariant& member : members) {
    const double own = !member.service_name.empty() ? seconds_of(scenario, member.service)
                       : member.model
                           ? seconds_of(scenario, *member.model)
                           : seconds_of(member.latency, member.max_batch, Duration::infinite());
    least = std::min(least, own);
  }
  return least;
}

// What one item of a source takes at least, whenever it is wanted.
double seconds_of(const Scenario& scenario, size_t source) {
  if (source < scenario.models.size()) {
    const SimulatedModel& model = scenario.models[source];
    return seconds_of(model.latency, model.max_batch, Duration::infinite());
  }
  source -= scenario.models.size();
  if (source < scenario.variants.size()) {
    return least_of(scenario, scenario.variants[source].variants);
  }
  source -= scenario.variants.size();
  if (source < scenario.ensembles.size()) {
    return least_of(scenario, scenario.ensembles[source].models);
  }
  double sum = 0;
  for (const auto& stage : scenario.pipelines[source - scenario.ensembles.size()].stages) {
    sum += stage.when * seconds_of(scenario, stage.service);
  }
  return sum;
}

// Of one that is called directly: infinite where it cannot end one item in time.
double seconds_in_time(const SimulatedModel& model) {
  const bool best_effort =
      absl::c_any_of(model.demand.slos, [](const auto& s) { return s.slo.is_infinite(); });
  return seconds_of(model.latency, model.max_batch, best_effort ? Duration::infinite() : model.slo);
}

// The model that no rate helps, and why; empty: there is none.
std::string why_infeasible(const Scenario& scenario) {
  for (const SimulatedModel& model : scenario.models) {
    if (model.share == 0 || std::isfinite(seconds_in_time(model))) continue;
    Duration alone = Duration::infinite();
    for (const LatencyModel& latency : model.latency) {
      alone = std::min(alone, (**LatencyTable::make(latency, model.max_batch))(1));
    }
    return fmt::format("slo_ms of '{}' is {:.6g}, one item alone takes {:.6g} ms", model.name,
                       model.slo.millis(), alone.millis());
  }
  return {};
}

// Calls each(source, its place) for those that somebody calls directly.
template <class Each>
void for_called(const Scenario& scenario, Each each) {
  size_t place = 0;
  const auto all = [&](const auto& sources) {
    for (const auto& source : sources) {
      if (source.share > 0) each(source, place);
      ++place;
    }
  };
  all(scenario.models);
  all(scenario.variants);
  all(scenario.ensembles);
  all(scenario.pipelines);
}

absl::Status check_has_deadline(const Scenario& scenario) {
  bool bounded = false;
  for_called(scenario, [&](const auto& s, size_t) { bounded |= !s.slo.is_infinite(); });
  if (bounded) return absl::OkStatus();
  return invalid(
      "$: no service that is called has a deadline, expected slo_ms of at least one: without it "
      "every rate is good");
}

std::string why_bad(const Result& result, const std::string& with) {
  const auto worst = absl::c_max_element(
      result.models, [](const auto& a, const auto& b) { return a.bad_rate() < b.bad_rate(); });
  return fmt::format("bad_rate of '{}' is {:.4g} even {}, expected at most {}", worst->name,
                     worst->bad_rate(), with, kAllowedBadRate);
}

class Search {
 public:
  Search(Scenario scenario, const std::function<void(const GoodputStep&)>& progress,
         const policy::Listener& listener)
      : scenario_(std::move(scenario)), progress_(progress), options_{.listener = listener} {}

  absl::StatusOr<Goodput> go();

 private:
  absl::StatusOr<bool> good_at(double rate_rps);

  Scenario scenario_;
  const std::function<void(const GoodputStep&)>& progress_;
  const RunOptions options_;
  Goodput found_;
};

absl::StatusOr<bool> Search::good_at(double rate_rps) {
  const double requests = rate_rps * scenario_.duration.seconds();
  if (requests > kMostRequests) {
    return invalid(
        "$: the latencies allow {:.4g} requests a second, which are {:.4g} requests in {:.6g} s, "
        "expected at most {:.4g} to try: a shorter duration_s, or longer latencies",
        rate_rps, requests, scenario_.duration.seconds(), kMostRequests);
  }
  scenario_.rate_rps = rate_rps;
  ASSIGN_OR_RETURN(Result result, run(scenario_, options_));
  found_.steps.push_back({rate_rps, result.worst_bad_rate()});
  if (progress_) progress_(found_.steps.back());
  const bool good = result.worst_bad_rate() <= kAllowedBadRate;
  if (good) found_.rate_rps = rate_rps;
  if (good || found_.rate_rps == 0) found_.result = std::move(result);
  return good;
}

absl::StatusOr<Goodput> Search::go() {
  RETURN_IF_ERROR(check_has_deadline(scenario_));
  // 1 % may be dropped, and a short run may be lucky: start a little above the bound.
  double high = std::min(rate_bound(scenario_) * 1.05, kHighestRate), low = high;
  if (high == 0) {
    RETURN_IF_ERROR(good_at(kFewRequests / scenario_.duration.seconds()).status());
    found_.rate_rps = 0;
    found_.binding = why_infeasible(scenario_);
    return std::move(found_);
  }
  const double lowest = high * kLowestShare;
  ASSIGN_OR_RETURN(bool good, good_at(high));
  while (good && high < kHighestRate) {  // only where a short run measures little
    low = high;
    high = std::min(high * 2, kHighestRate);
    ASSIGN_OR_RETURN(good, good_at(high));
  }
  while (found_.rate_rps == 0) {
    if (low <= lowest) {
      found_.binding =
          why_bad(found_.result, fmt::format("at {:.4g} requests/s", found_.steps.back().rate_rps));
      return std::move(found_);
    }
    high = low;
    low = std::max(low * kStepDown, lowest);
    RETURN_IF_ERROR(good_at(low).status());
  }
  while (!good && high / low > kRatePrecision) {
    const double middle = std::sqrt(low * high);
    ASSIGN_OR_RETURN(const bool middle_good, good_at(middle));
    (middle_good ? low : high) = middle;
  }
  return std::move(found_);
}

class WorkerSearch {
 public:
  WorkerSearch(Scenario scenario, const std::function<void(const NeededStep&)>& progress,
               const policy::Listener& listener)
      : scenario_(std::move(scenario)), progress_(progress), options_{.listener = listener} {}

  absl::StatusOr<NeededWorkers> go();

 private:
  absl::StatusOr<bool> good_with(uint32_t workers);

  Scenario scenario_;
  const std::function<void(const NeededStep&)>& progress_;
  const RunOptions options_;
  NeededWorkers found_;
};

absl::StatusOr<bool> WorkerSearch::good_with(uint32_t workers) {
  scenario_.workers.front().count = workers;
  ASSIGN_OR_RETURN(Result result, run(scenario_, options_));
  found_.steps.push_back({workers, result.worst_bad_rate()});
  if (progress_) progress_(found_.steps.back());
  const bool good = result.worst_bad_rate() <= kAllowedBadRate;
  if (good) found_.workers = workers;
  if (good || found_.workers == 0) found_.result = std::move(result);
  return good;
}

absl::StatusOr<NeededWorkers> WorkerSearch::go() {
  RETURN_IF_ERROR(check_has_deadline(scenario_));
  if (scenario_.workers.size() != 1 || scenario_.workers.front().least) {
    return invalid("$.workers: several types, or workers that come and go, expected one count");
  }
  scenario_.workers.front().count = 1;
  const double bound = rate_bound(scenario_);
  if (bound == 0) {
    RETURN_IF_ERROR(good_with(1).status());
    found_.workers = 0;
    found_.binding = why_infeasible(scenario_);
    return std::move(found_);
  }
  const double ideal = scenario_.rate_rps / bound;
  const auto most = static_cast<uint32_t>(
      std::clamp(kMostTimesIdeal * std::ceil(ideal), kFewWorkers, kManyWorkers));
  uint32_t few = 0;  // not enough
  uint32_t enough = static_cast<uint32_t>(std::clamp<double>(std::ceil(ideal), 1, most));
  for (;;) {
    ASSIGN_OR_RETURN(const bool good, good_with(enough));
    if (good) break;
    if (enough == most) {
      found_.binding = why_bad(found_.result, fmt::format("with {} workers", most));
      return std::move(found_);
    }
    few = enough;
    enough = std::min(2 * enough, most);
  }
  while (enough - few > 1) {
    const uint32_t middle = few + (enough - few) / 2;
    ASSIGN_OR_RETURN(const bool good, good_with(middle));
    (good ? enough : few) = middle;
  }
  return std::move(found_);
}

}  // namespace

absl::StatusOr<NeededWorkers> find_workers(Scenario scenario,
                                           const std::function<void(const NeededStep&)>& progress,
                                           const policy::Listener& listener) {
  return WorkerSearch(std::move(scenario), progress, listener).go();
}

double rate_bound(const Scenario& scenario) {
  double worker_seconds = 0, shares = 0;  // for one request, by share, on the fastest type
  for_called(scenario, [&](const auto& source, size_t place) {
    const double own = place < scenario.models.size() ? seconds_in_time(scenario.models[place])
                                                      : seconds_of(scenario, place);
    worker_seconds += source.share * own;
    shares += source.share;
  });
  return scenario.worker_count() * shares / worker_seconds;
}

absl::StatusOr<Goodput> find_goodput(Scenario scenario,
                                     const std::function<void(const GoodputStep&)>& progress,
                                     const policy::Listener& listener) {
  return Search(std::move(scenario), progress, listener).go();
}

Json write_goodput(const Goodput& goodput) {
  Json out;
  if (!goodput.binding.empty()) out = {{"feasible", false}, {"binding", goodput.binding}};
  out["goodput_rps"] = goodput.rate_rps;  // first: it is what was asked for
  out.update(write_result(goodput.result));
  Json steps = Json::array();
  for (const GoodputStep& step : goodput.steps) {
    steps.push_back({{"rate_rps", step.rate_rps}, {"worst_bad_rate", step.worst_bad_rate}});
  }
  out["steps"] = std::move(steps);
  return out;
}

Json write_needed_workers(const NeededWorkers& needed) {
  Json out;
  if (!needed.binding.empty()) out = {{"feasible", false}, {"binding", needed.binding}};
  if (needed.binding.empty()) out["workers"] = needed.workers;  // first: it is what was asked for
  out.update(write_result(needed.result));
  if (needed.binding.empty()) out["workers"] = needed.workers;
  Json steps = Json::array();
  for (const NeededStep& step : needed.steps) {
    steps.push_back({{"workers", step.workers}, {"worst_bad_rate", step.worst_bad_rate}});
  }
  out["steps"] = std::move(steps);
  return out;
}

}  // namespace fermata::simulate
