#include "simulate/result.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "plan/autoscale.h"

namespace fermata::simulate {
namespace {

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

Json write_variants_service(const ModelResult& m) {
  const VariantsResult& a = *m.variants;
  const auto share = [](double part, uint64_t of) {
    return of == 0 ? 0.0 : part / static_cast<double>(of);
  };
  Json result = write_model(m);
  result["utility"] = share(a.utility, m.items);
  result["accuracy"] = share(a.correct, a.answered);
  result["short_circuited"] = a.short_circuited;
  result["variants"] = a.variants;
  return result;
}

Json write_ensemble(const ModelResult& m) {
  const EnsembleResult& e = *m.ensemble;
  const auto share = [](uint64_t part, uint64_t of) {
    return of == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(of);
  };
  Json result = write_model(m);
  result["mean_ms"] = m.latency.mean().millis();
  result["p95_ms"] = m.latency.quantile(0.95).millis();
  result["max_ms"] = m.latency.quantile(1).millis();
  result["accuracy"] = share(e.correct, m.items);
  result["processed_accuracy"] = share(e.correct, e.answered);
  result["miss_rate"] = m.bad_rate();
  result["incomplete_rate"] = share(m.items - e.answered + e.incomplete, m.items);
  result["subsets"] = e.subsets;
  return result;
}

Json write_source(const ModelResult& m);

Json write_members(const ModelResult& m) {
  Json members = Json::array();
  for (const ModelResult& each : m.stages) members.push_back(write_source(each));
  return members;
}

// Batches are those of its stages.
Json write_pipeline(const ModelResult& m) {
  Json result = write_model(m);
  for (const char* of_batches : {"queueing_p99_ms", "mean_batch", "batches"}) {
    result.erase(of_batches);
  }
  const uint64_t answered = m.on_time + m.late;
  result["accuracy"] = answered == 0 ? 0.0 : m.accuracy / static_cast<double>(answered);
  result["stages"] = write_members(m);
  return result;
}

Json write_source(const ModelResult& m) {
  if (!m.variants && !m.ensemble) return m.stages.empty() ? write_model(m) : write_pipeline(m);
  Json result = m.variants ? write_variants_service(m) : write_ensemble(m);
  if (!m.stages.empty()) result["members"] = write_members(m);
  return result;
}

Json write_autoscale(const Result& result, const ModelResult& sum) {
  const double idle = std::max(0.0, 1 - result.utilization());
  const auto workers = static_cast<uint32_t>(std::lround(result.mean_workers()));
  const int64_t add =
      plan::workers_to_add({workers, sum.lacking_rate(), idle, sum.infeasible_rate()});
  return {{"add_workers", std::max<int64_t>(add, 0)},
          {"give_back_workers", std::max<int64_t>(-add, 0)}};
}

}  // namespace

double Result::worst_bad_rate() const {
  double worst = 0;
  for (const ModelResult& m : models) worst = std::max(worst, m.bad_rate());
  return worst;
}

Json write_result(const Result& result) {
  ModelResult sum;
  Json models = Json::array(), applications = Json::array(), ensembles = Json::array(),
       pipelines = Json::array();
  for (const ModelResult& m : result.models) {
    sum.offered += m.offered;
    sum.on_time += m.on_time;
    sum.late += m.late;
    sum.dropped += m.dropped;
    sum.infeasible += m.infeasible;
    Json& kind = m.variants          ? applications
                 : m.ensemble        ? ensembles
                 : !m.stages.empty() ? pipelines
                                     : models;
    kind.push_back(write_source(m));
  }
  const double seconds = result.duration.seconds();
  Json json = {{"offered_rps", static_cast<double>(sum.offered) / seconds},
               {"on_time_rps", static_cast<double>(sum.on_time) / seconds},
               {"bad_rate", sum.bad_rate()},
               {"late", sum.late},
               {"dropped", sum.dropped},
               {"workers", result.mean_workers()},
               {"worker_utilization", std::min(1.0, result.utilization())},
               {"autoscale", write_autoscale(result, sum)},
               {"events", result.events},
               {"models", std::move(models)}};
  if (!applications.empty()) json["applications"] = std::move(applications);
  if (!ensembles.empty()) json["ensembles"] = std::move(ensembles);
  if (!pipelines.empty()) json["pipelines"] = std::move(pipelines);
  return json;
}

}  // namespace fermata::simulate
