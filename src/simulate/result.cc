#include "simulate/result.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace fermata::simulate {
namespace {

constexpr double kBadRateToAdd = 0.01;  // what a goodput allows each model

Json write_model(const ModelResult& m) {
  Json batches = Json::object();
  uint64_t runs = 0, items = 0;
  for (size_t b = 1; b < m.batches.size(); ++b) {
    if (m.batches[b] == 0) continue;
    batches[std::to_string(b)] = m.batches[b];
    runs += m.batches[b];
    items += b * m.batches[b];
  }
  return {{"name", m.name},
          {"offered", m.offered},
          {"on_time", m.on_time},
          {"late", m.late},
          {"dropped", m.dropped},
          {"bad_rate", m.bad_rate()},
          {"p50_ms", m.latency.quantile(0.5).millis()},
          {"p99_ms", m.latency.quantile(0.99).millis()},
          {"queueing_p99_ms", m.queueing.quantile(0.99).millis()},
          {"mean_batch", runs == 0 ? 0.0 : static_cast<double>(items) / static_cast<double>(runs)},
          {"batches", std::move(batches)}};
}

// Where everything is bad no finite number of workers follows: null.
Json write_autoscale(const Result& result, double bad_rate) {
  const double n = result.workers;
  Json add = 0.0;
  if (bad_rate > kBadRateToAdd) add = n * bad_rate / (1 - bad_rate);
  if (bad_rate == 1) add = nullptr;
  return {{"add_workers", add}, {"give_back_workers", n * std::max(0.0, 1 - result.utilization())}};
}

}  // namespace

double Result::worst_bad_rate() const {
  double worst = 0;
  for (const ModelResult& m : models) worst = std::max(worst, m.bad_rate());
  return worst;
}

Json write_result(const Result& result) {
  ModelResult sum;
  Json models = Json::array();
  for (const ModelResult& m : result.models) {
    sum.offered += m.offered;
    sum.on_time += m.on_time;
    sum.late += m.late;
    sum.dropped += m.dropped;
    models.push_back(write_model(m));
  }
  const double seconds = result.duration.seconds();
  return {{"offered_rps", static_cast<double>(sum.offered) / seconds},
          {"on_time_rps", static_cast<double>(sum.on_time) / seconds},
          {"bad_rate", sum.bad_rate()},
          {"late", sum.late},
          {"dropped", sum.dropped},
          {"worker_utilization", result.utilization()},
          {"autoscale", write_autoscale(result, sum.bad_rate())},
          {"events", result.events},
          {"models", std::move(models)}};
}

}  // namespace fermata::simulate
