#pragma once

#include <iostream>
#include <memory>
#include <string>

#include "base/status.h"
#include "cli/cli.h"

namespace fermata::cli {

// The kinds of `fermata plan`, each in src/cli/plan_KIND.cc.
void add_plan_group(CLI::App& plan, int& exit_code);
void add_plan_ensemble(CLI::App& plan, int& exit_code);
void add_plan_pipeline(CLI::App& plan, int& exit_code);  // and of cores
void add_plan_streams(CLI::App& plan, int& exit_code);

inline constexpr const char* kPlanFile = "JSON or YAML document; - reads standard input";

// The one line of a wrong document.
inline Exit refuse_plan(const absl::Status& status) {
  std::cerr << "fermata plan: " << message(status) << "\n";
  return kBadInput;
}

}  // namespace fermata::cli
