#pragma once

#include <initializer_list>

#include "cli/cli.h"

namespace fermata::cli {

// One line a command; src/cli/NAME.cc defines it.
void add_adapt(CLI::App& app, int& exit_code);
void add_bench(CLI::App& app, int& exit_code);
void add_check(CLI::App& app, int& exit_code);
void add_completion(CLI::App& app, int& exit_code);
void add_demo(CLI::App& app, int& exit_code);
void add_difficulty(CLI::App& app, int& exit_code);
void add_evidence(CLI::App& app, int& exit_code);
void add_forecast(CLI::App& app, int& exit_code);
void add_frontend(CLI::App& app, int& exit_code);
void add_goodput(CLI::App& app, int& exit_code);
void add_load(CLI::App& app, int& exit_code);
void add_model_process(CLI::App& app, int& exit_code);
void add_nursery(CLI::App& app, int& exit_code);
void add_picker(CLI::App& app, int& exit_code);
void add_plan(CLI::App& app, int& exit_code);
void add_profile(CLI::App& app, int& exit_code);
void add_scheduler(CLI::App& app, int& exit_code);
void add_serve(CLI::App& app, int& exit_code);
void add_simulate(CLI::App& app, int& exit_code);
void add_stream(CLI::App& app, int& exit_code);
void add_try_model(CLI::App& app, int& exit_code);
void add_version(CLI::App& app, int& exit_code);
void add_worker(CLI::App& app, int& exit_code);

// clang-format off
inline constexpr AddCommand kCommands[] = {
    add_adapt,
    add_bench,
    add_check,
    add_completion,
    add_demo,
    add_difficulty,
    add_evidence,
    add_forecast,
    add_frontend,
    add_goodput,
    add_load,
    add_model_process,
    add_nursery,
    add_picker,
    add_plan,
    add_profile,
    add_scheduler,
    add_serve,
    add_simulate,
    add_stream,
    add_try_model,
    add_version,
    add_worker,
};
// clang-format on

}  // namespace fermata::cli
