#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace fermata::cli {

enum class Shell { kBash, kZsh, kFish };

// A script that completes the commands and options of `root`, as they are now;
// anything else completes to file names.
std::string completion_script(const CLI::App& root, Shell shell);

}  // namespace fermata::cli
