#include "engine/apart/model_process.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <iostream>
#include <memory>

#include "base/status.h"
#include "cli/cli.h"
#include "cli/commands.h"

namespace fermata::cli {

// Not for people: the server runs it, so that models run in processes of their own.
void add_model_process(CLI::App& app, int& /*exit_code*/) {
  CLI::App* command = app.add_subcommand("model-process", "Run the models of a server.");
  command->group("");
  auto options = std::make_shared<engine::apart::ModelProcessOptions>();
  options->limits = {.processor_s = 0, .confined = true};
  command->add_option("--memory-mb", options->limits.memory_mb, "Memory that it may write to");
  command->add_flag_callback(
      "--devices", [options] { options->limits.confined = false; },
      "It may open what GPUs' libraries do");
  command->add_option("--backend", options->backend, "Whose program the command reads");
  command->add_option("command", options->command, "Another program that is it");
  auto check = std::make_shared<bool>(false);
  command->add_flag("--check", *check, "Say what keeps such a process from being");
  command->callback([options, check] {
    spdlog::set_default_logger(spdlog::stderr_logger_st("model-process"));
    const absl::Status ended =
        *check ? engine::apart::check_model_process() : engine::apart::be_model_process(*options);
    if (!ended.ok()) std::cerr << message(ended) << std::endl;
    std::_Exit(ended.ok() ? kDone : kFailed);  // threads may be in a model still
  });
}

}  // namespace fermata::cli
