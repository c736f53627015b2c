#include "simulate/goodput.h"

#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "base/status.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/scenario.h"

namespace fermata::cli {
namespace {

constexpr const char* kGoodputExamples = R"(
Examples:
  fermata goodput cluster.json
  fermata goodput cluster.yaml | jq .goodput_rps

The document is that of `fermata simulate`; it needs no rate_rps. The search
ends when the lowest bad rate found is within 0.5 % of the highest good one.
Exit codes: 0 done, 2 wrong document, or nothing in it has a deadline, 3 no rate
is good ("feasible": false, "binding": why).)";

// Bisection takes about this many runs.
constexpr double kUsualSteps = 12;

int find(const std::string& file) {
  int exit_code = kDone;
  const auto scenario = load_scenario(file, exit_code, simulate::read_goodput_scenario);
  if (!scenario) return exit_code;
  Progress progress("goodput");
  double steps = 0;
  const auto goodput = simulate::find_goodput(*scenario, [&](const simulate::GoodputStep& step) {
    progress.update(++steps / kUsualSteps, fmt::format("{:.1f}/s: worst model {:.2f} % bad",
                                                       step.rate_rps, 100 * step.worst_bad_rate));
  });
  progress.finish();
  if (!goodput.ok()) {
    std::cerr << message(goodput.status()) << "\n";
    return absl::IsInvalidArgument(goodput.status()) ? kBadInput : kFailed;
  }
  std::cout << write_json(write_goodput(*goodput));
  return goodput->binding.empty() ? kDone : kInfeasible;
}

}  // namespace

void add_goodput(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "goodput", "Find the highest rate at which every model keeps 99 % on time.");
  auto file = std::make_shared<std::string>();
  command->add_option("FILE", *file, "The cluster as JSON or YAML; - is standard input")
      ->required();
  command->footer(kGoodputExamples);
  command->callback([file, &exit_code] { exit_code = find(*file); });
}

}  // namespace fermata::cli
