#include "simulate/goodput.h"

#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/status.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/scenario.h"
#include "tune/tuned_scheduler.h"

namespace fermata::cli {
namespace {

constexpr const char* kGoodputExamples = R"(
Examples:
  fermata goodput bench/policies/resnet50.yaml
  fermata goodput bench/policies/resnet50.yaml --rate 500 | jq .workers
  fermata goodput bench/policies/resnet50.yaml --set hold=off --set margin=0.2

The document is that of `fermata simulate`; it needs no rate_rps. The answer,
goodput_rps, comes first; the run at that rate and the search follow. The search
ends when the lowest bad rate found is within 0.5 % of the highest good one.
With --rate the answer is how many workers that rate needs (workers.count is not
read) for every model to keep 99 % on time.
Exit codes: 0 done, 2 wrong document, or nothing in it has a deadline, 3 no rate
is good ("feasible": false, "binding": why).)";

// Bisection takes about this many runs.
constexpr double kUsualSteps = 12;

// `said` for people, who may be reading the JSON too; what is binding where there is no answer.
int print(const Json& answer, const std::string& binding, const std::string& said) {
  std::cout << write_json(answer) << std::flush;
  std::cerr << (binding.empty() ? said : "no answer: " + binding) << "\n";
  return binding.empty() ? kDone : kInfeasible;
}

int say_why(const absl::Status& status) {
  std::cerr << message(status) << "\n";
  return absl::IsInvalidArgument(status) ? kBadInput : kFailed;
}

int find_workers(const std::string& file, const std::vector<std::string>& rules, bool tune,
                 double rate_rps) {
  int exit_code = kDone;
  auto scenario = load_scenario(file, rules, exit_code, simulate::read_goodput_scenario);
  if (!scenario) return exit_code;
  scenario->rate_rps = rate_rps;
  Progress progress("workers");
  double steps = 0;
  const auto show = [&](const simulate::NeededStep& step) {
    progress.update(++steps / kUsualSteps, fmt::format("{} workers: worst model {:.2f} % bad",
                                                       step.workers, 100 * step.worst_bad_rate));
  };
  const auto needed =
      simulate::find_workers(*scenario, show, tune ? tune::tuning_for(*scenario) : nullptr);
  progress.finish();
  if (!needed.ok()) return say_why(needed.status());
  return print(
      write_needed_workers(*needed), needed->binding,
      fmt::format("{:.6g} requests/s need {} worker{} for every model to keep 99 % on time",
                  rate_rps, needed->workers, needed->workers == 1 ? "" : "s"));
}

int find(const std::string& file, const std::vector<std::string>& rules, bool tune) {
  int exit_code = kDone;
  const auto scenario = load_scenario(file, rules, exit_code, simulate::read_goodput_scenario);
  if (!scenario) return exit_code;
  Progress progress("goodput");
  double steps = 0;
  const auto show = [&](const simulate::GoodputStep& step) {
    progress.update(++steps / kUsualSteps, fmt::format("{:.1f}/s: worst model {:.2f} % bad",
                                                       step.rate_rps, 100 * step.worst_bad_rate));
  };
  const auto goodput =
      simulate::find_goodput(*scenario, show, tune ? tune::tuning_for(*scenario) : nullptr);
  progress.finish();
  if (!goodput.ok()) return say_why(goodput.status());
  return print(
      write_goodput(*goodput), goodput->binding,
      fmt::format("{:.6g} requests/s is the highest rate at which every model keeps 99 % on "
                  "time, on {} worker{}",
                  goodput->rate_rps, scenario->worker_count(),
                  scenario->worker_count() == 1 ? "" : "s"));
}

}  // namespace

void add_goodput(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "goodput",
      "Find the highest rate at which every model keeps 99 % on time, or the workers for a rate.");
  auto file = std::make_shared<std::string>();
  auto rate = std::make_shared<std::optional<double>>();
  command->add_option("FILE", *file, "The cluster as JSON or YAML; - is standard input")
      ->required();
  command
      ->add_option("--rate", *rate,
                   "Requests a second: find the workers that they need, instead of the rate that "
                   "the document's workers sustain")
      ->check(CLI::Range(simulate::kLowestRate, simulate::kHighestRate));
  auto rules = std::make_shared<std::vector<std::string>>();
  add_rules(command, *rules);
  auto tune = std::make_shared<bool>(true);
  add_tune(command, *tune);
  command->footer(kGoodputExamples);
  command->callback([file, rate, rules, tune, &exit_code] {
    exit_code = *rate ? find_workers(*file, *rules, *tune, **rate) : find(*file, *rules, *tune);
  });
}

}  // namespace fermata::cli
