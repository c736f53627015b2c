#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "base/status.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/scenario.h"
#include "simulate/driver.h"

namespace fermata::cli {
namespace {

constexpr const char* kSimulateExamples = R"(
Examples:
  fermata simulate cluster.json
  fermata simulate cluster.yaml > result.json
  echo '{"workers": {"count": 8}, "rate_rps": 5000, "models": [{"name": "resnet50",
         "latency_ms": {"alpha": 1.053, "beta": 5.072}, "slo_ms": 25}]}' | fermata simulate -

The document: seed, warmup_s, duration_s, scheduler, workers, network, models,
rate_rps (docs/simulate.md). Exit codes: 0 done, 2 wrong document, 3 the models
do not fit into the workers' memory.)";

int simulate_file(const std::string& file) {
  int exit_code = kDone;
  const auto scenario = load_scenario(file, exit_code);
  if (!scenario) return exit_code;
  Progress progress("simulate");
  const auto result = simulate::run(*scenario, {.progress = [&](double share) {
    progress.update(share, fmt::format("{} workers", scenario->worker_count()));
  }});
  progress.finish();
  if (!result.ok()) {
    std::cerr << message(result.status()) << "\n";
    return kBadInput;
  }
  std::cout << write_json(write_result(*result));
  return kDone;
}

}  // namespace

void add_simulate(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("simulate", "Run a scheduler on a cluster that need not exist.");
  auto file = std::make_shared<std::string>();
  command->add_option("FILE", *file, "The cluster as JSON or YAML; - is standard input")
      ->required();
  command->footer(kSimulateExamples);
  command->callback([file, &exit_code] { exit_code = simulate_file(*file); });
}

}  // namespace fermata::cli
