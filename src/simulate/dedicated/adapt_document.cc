#include "simulate/dedicated/adapt_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/status.h"
#include "plan/pipeline/pipeline_document.h"
#include "simulate/arrivals_document.h"

namespace fermata::simulate {
namespace {

constexpr int64_t kMostReplicas = 1'000'000, kLongestInterval = 86'400;
constexpr double kMostMargin = 100, kLongestApply = 86'400, kHighestLoad = 1e6;
constexpr double kMostArrivals = 1e8;

uint32_t place_of(Reader value, const std::vector<plan::PipelineVariant>& variants) {
  const std::string name = value.string();
  for (uint32_t v = 0; v < variants.size(); ++v) {
    if (variants[v].name == name) return v;
  }
  value.fail("the name of a variant of this stage");
  return 0;
}

// A map with an entry for every stage, by `read(entry, stage)`.
template <class Read>
std::vector<uint32_t> by_stage(Reader map, const plan::PipelineProblem& problem, Read read) {
  std::vector<uint32_t> values(problem.stages.size());
  std::vector<bool> named(problem.stages.size());
  for (const auto& [name, entry] : map.map()) {
    size_t s = 0;
    while (s < values.size() && problem.stages[s].name != name) ++s;
    if (s == values.size()) {
      entry.fail(fmt::format("a stage as its name, not '{}'", name));
      return values;
    }
    values[s] = read(entry, problem.stages[s]);
    named[s] = true;
  }
  for (size_t s = 0; s < values.size(); ++s) {
    if (!named[s]) map.fail(fmt::format("an entry for stage '{}' too", problem.stages[s].name));
  }
  return values;
}

std::vector<uint32_t> extreme_variants(const plan::PipelineProblem& problem, bool most) {
  std::vector<uint32_t> places;
  for (const plan::PipelineStage& stage : problem.stages) {
    const auto less = [](const auto& a, const auto& b) { return a.accuracy < b.accuracy; };
    const auto [low, high] =
        std::minmax_element(stage.variants.begin(), stage.variants.end(), less);
    places.push_back(static_cast<uint32_t>((most ? high : low) - stage.variants.begin()));
  }
  return places;
}

void read_method(ObjectReader& fields, plan::PipelineAdapterOptions& options) {
  const auto& names = plan::pipeline_method_names();
  options.method = static_cast<plan::PipelineMethod>(fields["method"].choice(names, 0));
  const Reader variants = fields["variants"], replicas = fields["replicas"];
  if (options.method == plan::PipelineMethod::kFa2) {
    options.variants =
        variants.is_object()
            ? by_stage(
                  variants, options.problem,
                  [](Reader entry, const auto& stage) { return place_of(entry, stage.variants); })
            : extreme_variants(options.problem, variants.choice({"lightest", "heaviest"}, 0) == 1);
  } else if (variants.present()) {
    variants.fail("no such field but for method fa2");
  }
  if (options.method == plan::PipelineMethod::kRim) {
    options.replicas = by_stage(replicas, options.problem, [](Reader entry, const auto&) {
      return static_cast<uint32_t>(entry.integer(1, kMostReplicas));
    });
  } else if (replicas.present()) {
    replicas.fail("no such field but for method rim");
  }
}

std::vector<double> read_loads(ObjectReader& fields) {
  const Reader trace = fields["trace"], loads = fields["loads"];
  const double scale = fields["scale"].positive(1.0);
  std::vector<double> counts;
  if (loads.present()) {
    if (trace.present()) loads.fail("either trace or loads");
    for (const Reader load : loads.list(1)) {
      counts.push_back(static_cast<double>(load.integer(0, kHighestLoad)));
    }
  } else if (auto read = load_trace(trace.string()); read.ok()) {
    counts = *read->counts;
  } else if (!trace.failed()) {
    trace.fail(fmt::format("a trace ({})", message(read.status())));
  }
  double sum = 0;
  for (double& count : counts) sum += count = std::floor(count * scale);
  if (!trace.failed() && !(sum > 0 && sum < kMostArrivals)) {
    (loads.present() ? loads : trace).fail("from 1 to 1e8 requests altogether");
  }
  return counts;
}

Json write_row(const DedicatedRow& row) {
  const auto offered = static_cast<double>(row.offered);
  return {{"load_rps", row.load_rps},
          {"forecast_rps", row.forecast_rps},
          {"offered", row.offered},
          {"on_time", row.on_time},
          {"late", row.late},
          {"dropped", row.dropped},
          {"attainment", row.offered ? static_cast<double>(row.on_time) / offered : 1.0},
          {"accuracy", row.accuracy},
          {"cost", row.cost}};
}

double percentile(const std::vector<double>& ascending, double share) {
  if (ascending.empty()) return 0;
  const auto rank = static_cast<size_t>(share * static_cast<double>(ascending.size() - 1) + 0.5);
  return ascending[rank];
}

}  // namespace

AdaptTask read_adapt(Reader root) {
  ObjectReader fields = root.object();
  AdaptTask task;
  DedicatedOptions& options = task.options;
  options.adapter.problem = plan::read_pipeline_at(fields["pipeline"], 1.0);
  for (const plan::PipelineStage& stage : options.adapter.problem.stages) {
    if (stage.items != 1) fields["pipeline"].fail("stages of one item a request");
  }
  if (root.failed()) return task;
  read_method(fields, options.adapter);
  options.adapter.margin = fields["margin"].between(1e-3, kMostMargin, 1.0);
  options.loads = read_loads(fields);
  options.interval_s = static_cast<double>(fields["interval_s"].integer(1, kLongestInterval, 10));
  options.series_s = static_cast<size_t>(fields["series_s"].integer(1, kLongestInterval, 10));
  options.apply_s = fields["apply_s"].between(0, kLongestApply, options.apply_s);
  options.seed = static_cast<uint64_t>(fields["seed"].integer(0, INT64_MAX, 1));
  options.drop = static_cast<DropRule>(fields["drop"].choice({"never", "published", "ahead"}, 1));
  options.batch = static_cast<BatchRule>(fields["batches"].choice({"planned", "slack-fit"}, 0));
  task.forecast = static_cast<ForecastKind>(fields["forecast"].choice(
      {"reactive", "moving-maximum", "square-root", "perfect", "model"}, 0));
  task.quantile = fields["quantile"].between(0.01, 0.99, task.quantile);
  const Reader model = fields["model"];
  if (task.forecast == ForecastKind::kModel) task.model = model.string();
  if (task.forecast != ForecastKind::kModel && model.present()) {
    model.fail("no such field but for forecast model");
  }
  return task;
}

LoadForecast make_forecast(const AdaptTask& task) {
  switch (task.forecast) {
    case ForecastKind::kMovingMaximum:
      return [](const auto& window, size_t) { return estimate::moving_maximum(window.loads()); };
    case ForecastKind::kSquareRoot:
      return [forecast = estimate::SquareRootForecast(task.quantile)](const auto& window,
                                                                      size_t) mutable {
        forecast.second(window.loads().back());
        return forecast.forecast();
      };
    case ForecastKind::kPerfect:
      return [loads = task.options.loads](const auto&, size_t second) {
        const size_t end = std::min(loads.size(), second + estimate::kForecastHorizon);
        double highest = 0;
        for (size_t k = second; k < end; ++k) highest = std::max(highest, loads[k]);
        return highest;
      };
    default:
      return [](const auto& window, size_t) { return estimate::reactive_forecast(window.loads()); };
  }
}

Json write_adapt(const AdaptTask& task, const DedicatedResult& result) {
  Json out = write_row(result.total);
  const auto& latencies = result.latencies_ms;
  out["p50_ms"] = percentile(latencies, 0.5);
  out["p99_ms"] = percentile(latencies, 0.99);
  out["latency_ms"] = Json::array();  // at every twentieth of the answered requests
  for (int k = 1; k <= 20; ++k) out["latency_ms"].push_back(percentile(latencies, k / 20.0));
  out["batches"] = result.batches;
  out["decisions"] = result.decisions;
  out["applied"] = result.applied;
  out["infeasible"] = result.infeasible;
  out["smape_percent"] = result.smape_percent;
  out["stages"] = Json::array();
  for (size_t s = 0; s < result.stage_cost.size(); ++s) {
    out["stages"].push_back(
        {{"name", task.options.adapter.problem.stages[s].name}, {"cost", result.stage_cost[s]}});
  }
  out["series"] = Json::array();
  for (const DedicatedRow& row : result.series) out["series"].push_back(write_row(row));
  return out;
}

}  // namespace fermata::simulate
