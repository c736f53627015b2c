#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "base/status.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/scenario.h"
#include "policy/scheduler.h"
#include "simulate/driver.h"
#include "tune/record_file.h"
#include "tune/tuned_scheduler.h"
#include "tune/what_if.h"

namespace fermata::cli {
namespace {

constexpr const char* kSimulateExamples = R"(
Examples:
  fermata simulate bench/policies/resnet50.yaml
  fermata simulate bench/policies/resnet50.yaml > result.json
  fermata simulate bench/policies/resnet50.yaml --set burst=off
  fermata serve --config zoo/fermata.yaml --record minutes.jsonl    # under load, then:
  fermata simulate --recorded minutes.jsonl --scheduler edf --workers 6
  echo '{"workers": {"count": 8}, "rate_rps": 5000, "models": [{"name": "resnet50",
         "latency_ms": {"alpha": 1.053, "beta": 5.072}, "slo_ms": 25}]}' | fermata simulate -

The document: seed, warmup_s, duration_s, scheduler, workers, network, models,
rate_rps (docs/simulate.md). Exit codes: 0 done, 2 wrong document, 3 the models
do not fit into the workers' memory.)";

int simulate_file(const std::string& file, const std::vector<std::string>& rules, bool tune) {
  int exit_code = kDone;
  const auto scenario = load_scenario(file, rules, exit_code);
  if (!scenario) return exit_code;
  Progress progress("simulate");
  tune::TuningLog log;
  const auto listener = tune ? tune::tuning_for(*scenario, &log) : policy::Listener();
  const auto show = [&](double share) {
    progress.update(share, fmt::format("{} workers", scenario->worker_count()));
  };
  const auto result = simulate::run(*scenario, {.listener = listener, .progress = show});
  progress.finish();
  if (!result.ok()) {
    std::cerr << message(result.status()) << "\n";
    return kBadInput;
  }
  Json answer = write_result(*result);
  if (listener) answer["tuning"] = tune::write_tuning(log);
  std::cout << write_json(answer);
  return kDone;
}

struct ReplayArguments {
  std::string file;
  tune::Case given;
  std::vector<std::string> slos;  // NAME=MS
  std::optional<double> on_time;
};

absl::Status read_slos(ReplayArguments& arguments) {
  for (const std::string& text : arguments.slos) {
    const size_t equals = text.rfind('=');
    double ms = 0;
    if (equals == std::string::npos || !absl::SimpleAtod(text.substr(equals + 1), &ms) ||
        !(ms > 0 && ms < 1e8)) {
      return invalid("--slo {}, expected SERVICE=MILLISECONDS", text);
    }
    arguments.given.slo[text.substr(0, equals)] = Duration::from_millis(ms);
  }
  return absl::OkStatus();
}

absl::StatusOr<Json> replay(ReplayArguments& arguments) {
  RETURN_IF_ERROR(read_slos(arguments));
  ASSIGN_OR_RETURN(const Json document, tune::read_last_recording(arguments.file));
  std::vector<tune::Case> cases;
  const tune::Case& given = arguments.given;
  if (given.scheduler || given.workers || given.load != 1 || !given.slo.empty()) {
    cases.push_back(given);
  }
  return tune::what_if(document, cases, arguments.on_time);
}

int replay_file(ReplayArguments& arguments) {
  const auto answer = replay(arguments);
  if (!answer.ok()) {
    std::cerr << message(answer.status()) << "\n";
    return kBadInput;
  }
  std::cout << write_json(*answer);
  return kDone;
}

void add_replay(CLI::App* command, ReplayArguments& arguments) {
  command->add_option("--recorded", arguments.file,
                      "Replay the last recording of fermata serve --record, instead of FILE");
  const auto names = policy::all_scheduler_names();
  command->add_option("--scheduler", arguments.given.scheduler, "Replay with another scheduler")
      ->check(CLI::IsMember(std::vector<std::string>(names.begin(), names.end())));
  command
      ->add_option("--workers", arguments.given.workers,
                   "Replay with this number of workers, of the first type")
      ->check(CLI::Range(1, 10'000));
  command
      ->add_option("--on-time", arguments.on_time,
                   "Say with how many workers this share had been on time, such as 0.99")
      ->check(CLI::Range(0.01, 1.0));
  command->add_option("--load", arguments.given.load, "Replay this many times the recorded load")
      ->check(CLI::Range(tune::kLeastLoad, tune::kMostLoad));
  command->add_option("--slo", arguments.slos,
                      "SERVICE=MILLISECONDS: replay with another SLO; repeatable");
}

}  // namespace

void add_simulate(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("simulate", "Simulate a policy on a described cluster.");
  auto file = std::make_shared<std::string>();
  auto replayed = std::make_shared<ReplayArguments>();
  command->add_option("FILE", *file, "The cluster as JSON or YAML; - is standard input");
  auto rules = std::make_shared<std::vector<std::string>>();
  add_rules(command, *rules);
  auto tune = std::make_shared<bool>(true);
  add_tune(command, *tune);
  add_replay(command, *replayed);
  command->footer(kSimulateExamples);
  command->callback([file, replayed, rules, tune, &exit_code] {
    if (file->empty() == replayed->file.empty()) {
      std::cerr << "expected FILE or --recorded FILE; fermata simulate --help has examples\n";
      exit_code = kBadInput;
      return;
    }
    if (!replayed->file.empty() && !rules->empty()) {
      std::cerr << "--set is for FILE; --scheduler replays a recording with another policy\n";
      exit_code = kBadInput;
      return;
    }
    exit_code =
        replayed->file.empty() ? simulate_file(*file, *rules, *tune) : replay_file(*replayed);
  });
}

}  // namespace fermata::cli
