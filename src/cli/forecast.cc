#include "estimate/forecast.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/document.h"
#include "base/status.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "engine/services/forecast_model.h"
#include "simulate/arrivals_document.h"

namespace fermata::cli {
namespace {

constexpr const char* kForecastExamples = R"(Examples:
  awk 'BEGIN { for (t = 0; t < 3600; ++t) print int(60 + 40 * sin(t / 300)) }' > requests.txt
  fermata forecast requests.txt
  python -m fermata_train forecast requests.txt --out load.onnx
  fermata forecast requests.txt --model load.onnx --from 2400 | jq '.methods.model'

TRACE: requests in each second, one a line. Seconds without a request count as missing data
and are left out. python -m fermata_train forecast trains a model.)";

struct ForecastArguments {
  std::string trace, model;
  size_t from = 0, every = estimate::kForecastHorizon;
};

using LoadForecaster = std::function<absl::StatusOr<double>(const estimate::LoadWindow&)>;

// One way to forecast, and how it did.
struct Tried {
  std::string name;
  LoadForecaster forecast;
  estimate::SmapeMeter error;
  uint64_t below = 0, count = 0;  // forecasts that the load exceeded
};

absl::Status tried_at(std::vector<Tried>& methods, const estimate::LoadWindow& window,
                      double highest) {
  for (Tried& method : methods) {
    ASSIGN_OR_RETURN(const double forecast, method.forecast(window));
    method.error.add(forecast, highest);
    method.below += forecast < highest;
    ++method.count;
  }
  return absl::OkStatus();
}

Json methods_json(const std::vector<Tried>& methods) {
  Json json = Json::object();
  for (const Tried& method : methods) {
    json[method.name] = {
        {"smape_percent", method.error.percent()},
        {"exceeded", static_cast<double>(method.below) / static_cast<double>(method.count)}};
  }
  return json;
}

absl::StatusOr<Json> try_forecasts(const std::vector<double>& loads,
                                   const ForecastArguments& arguments,
                                   const engine::ForecastModel* model) {
  estimate::SquareRootForecast median(0.5), high(0.95);
  std::vector<Tried> methods = {
      {"reactive", [](const auto& w) { return estimate::reactive_forecast(w.loads()); }},
      {"moving-maximum", [](const auto& w) { return estimate::moving_maximum(w.loads()); }},
      {"square-root", [&](const auto&) { return median.forecast(); }},
      {"square-root-95", [&](const auto&) { return high.forecast(); }}};
  Duration spent;
  if (model) {
    methods.push_back({"model", [&](const auto& w) {
                         const Time start = monotonic_now();
                         auto forecast = model->forecast(w.loads());
                         spent = spent + (monotonic_now() - start);
                         return forecast;
                       }});
  }
  estimate::LoadWindow window;
  for (size_t second = 0; second + estimate::kForecastHorizon < loads.size(); ++second) {
    window.add(loads[second]);
    median.second(loads[second]);
    high.second(loads[second]);
    const size_t next = second + 1;
    if (next < arguments.from + estimate::kForecastWindow || next % arguments.every != 0) continue;
    const auto* from = loads.data() + next;
    RETURN_IF_ERROR(
        tried_at(methods, window, *std::max_element(from, from + estimate::kForecastHorizon)));
  }
  if (methods[0].count == 0) return invalid("too few seconds with requests to try a forecast");
  if (model) {
    std::cerr << fmt::format("{:.1f} us a forecast of the model\n",
                             spent.millis() * 1e3 / static_cast<double>(methods[0].count));
  }
  return Json{{"forecasts", methods[0].count}, {"methods", methods_json(methods)}};
}

absl::Status run_forecast(const ForecastArguments& arguments) {
  ASSIGN_OR_RETURN(const simulate::TraceArrivals trace, simulate::load_trace(arguments.trace));
  std::vector<double> loads;
  std::copy_if(trace.counts->begin(), trace.counts->end(), std::back_inserter(loads),
               [](double load) { return load > 0; });
  std::unique_ptr<engine::ForecastModel> model;
  if (!arguments.model.empty()) {
    ASSIGN_OR_RETURN(model, engine::ForecastModel::load(arguments.model));
  }
  ASSIGN_OR_RETURN(const Json result, try_forecasts(loads, arguments, model.get()));
  std::cout << write_json(result);
  return absl::OkStatus();
}

}  // namespace

void add_forecast(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "forecast", "Try forecasts of the load on a trace and print their errors.");
  command->footer(kForecastExamples);
  auto arguments = std::make_shared<ForecastArguments>();
  command->add_option("TRACE", arguments->trace, "Requests in each second, one number per line")
      ->required();
  command->add_option("--model", arguments->model, "A trained network, .onnx");
  command->add_option("--from", arguments->from, "Second (with requests) from which errors count");
  command->add_option("--every", arguments->every, "Seconds between two forecasts")
      ->check(CLI::Range(1, 86400))
      ->capture_default_str();
  command->callback([arguments, &exit_code] {
    if (absl::Status done = run_forecast(*arguments); !done.ok()) {
      std::cerr << "fermata forecast: " << message(done) << "\n";
      exit_code = kBadInput;
    }
  });
}

}  // namespace fermata::cli
