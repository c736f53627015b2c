#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <iostream>

#include "base/status.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "engine/trial/trial.h"

namespace fermata::cli {

// Not for people: the server runs it to open and run a model for the first time in a process of its
// own.
void add_try_model(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("try-model", "Try the model that standard input names.");
  command->group("");
  command->callback([&exit_code] {
    // Standard output has the answer and nothing else.
    spdlog::set_default_logger(spdlog::stderr_logger_st("try-model"));
    const absl::Status tried = engine::answer_trial(std::cin, std::cout);
    if (!tried.ok()) {
      std::cerr << message(tried) << "\n";
      exit_code = kFailed;
    }
    std::cout.flush();
    std::_Exit(exit_code);  // a thread may be in the model still
  });
}

}  // namespace fermata::cli
