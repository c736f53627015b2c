#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/status.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "engine/services/forecast_model.h"
#include "simulate/dedicated/adapt_document.h"

namespace fermata::cli {
namespace {

constexpr const char* kAdaptHelp = R"(
Example, with this document as day.yaml:
  fermata adapt day.yaml | jq '{attainment, accuracy, cost}'

  pipeline:                 # as for fermata plan pipeline, without a rate
    sla_ms: 600
    alpha: 2
    beta: 1
    stages:
      - name: detect
        variants:
          - {name: yolov5n, accuracy: 0.457, cost: 1, latency_ms: {table: {1: 80, 8: 481}}}
          - {name: yolov5m, accuracy: 0.641, cost: 2, latency_ms: {table: {1: 347, 8: 1654}}}
  loads: [5, 7, 6, 5, 20, 22, 21, 20, 8, 7]    # requests in each second, or trace: FILE
  method: ipa               # fa2, rim
  forecast: square-root     # reactive, moving-maximum, perfect, model

Exit code 0: done. 2: the document is wrong.
)";

absl::Status adapt(const std::string& file) {
  ASSIGN_OR_RETURN(Document document, Document::load(file));
  ASSIGN_OR_RETURN(const simulate::AdaptTask task, document.read(simulate::read_adapt));
  simulate::LoadForecast forecast = simulate::make_forecast(task);
  absl::Status failed;
  std::unique_ptr<engine::ForecastModel> model;
  if (task.forecast == simulate::ForecastKind::kModel) {
    ASSIGN_OR_RETURN(model, engine::ForecastModel::load(task.model));
    forecast = [&](const estimate::LoadWindow& window, size_t) {
      const auto answer = model->forecast(window.loads());
      if (!answer.ok()) failed = answer.status();
      return answer.value_or(estimate::moving_maximum(window.loads()));
    };
  }
  const auto result = simulate::run_dedicated(task.options, std::move(forecast));
  RETURN_IF_ERROR(failed);
  std::cout << write_json(simulate::write_adapt(task, result));
  return absl::OkStatus();
}

}  // namespace

void add_adapt(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "adapt",
      "Simulate a pipeline of dedicated replicas that are planned as the load changes (IPA).");
  auto file = std::make_shared<std::string>();
  command->add_option("FILE", *file, "JSON or YAML document; - reads standard input")->required();
  command->footer(kAdaptHelp);
  command->callback([file, &exit_code] {
    if (absl::Status done = adapt(*file); !done.ok()) {
      std::cerr << "fermata adapt: " << message(done) << "\n";
      exit_code = kBadInput;
    }
  });
}

}  // namespace fermata::cli
