#include "engine/execute/probe.h"

#include <iostream>
#include <limits>
#include <string>

#include "base/status.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "engine/execute/first_runs.h"

namespace fermata::cli {

// Not for people: the server runs it to open a model file in a process of its own.
void add_probe(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("probe-model", "Print what a model file offers.");
  command->group("");
  auto file = std::make_shared<std::string>();
  command->add_option("FILE", *file, "The ONNX file")->required();
  auto memory_mb = std::make_shared<double>(std::numeric_limits<double>::infinity());
  command->add_option("MEMORY_MB", *memory_mb, "That it may take");
  command->callback([file, memory_mb, &exit_code] {
    if (absl::Status printed = engine::print_signature(*file, *memory_mb, std::cout);
        !printed.ok()) {
      std::cerr << message(printed) << "\n";
      exit_code = kFailed;
    }
  });
}

// Not for people either: the server runs it to run a model for the first time.
void add_first_runs(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("first-runs", "Measure a model file for a moment.");
  command->group("");
  command->callback([&exit_code] {
    const absl::Status printed = engine::print_first_runs(std::cin, std::cout);
    if (printed.ok()) return;
    std::cerr << message(printed) << "\n";
    exit_code =
        printed.code() == absl::StatusCode::kFailedPrecondition ? engine::kRunsNotOnZeros : kFailed;
  });
}

}  // namespace fermata::cli
