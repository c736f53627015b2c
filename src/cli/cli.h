#pragma once

#include <CLI/CLI.hpp>

namespace fermata::cli {

// Exit codes of every command, as docs/cli.md says.
enum Exit : int { kDone = 0, kFailed = 1, kBadInput = 2, kInfeasible = 3 };

// Parses and runs one command; returns its exit code.
int run(int argc, char** argv);

// Each command's own file adds it to the program. Its callback sets `exit_code`.
using AddCommand = void (*)(CLI::App& app, int& exit_code);

}  // namespace fermata::cli
