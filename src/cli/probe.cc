#include "engine/execute/probe.h"

#include <iostream>
#include <string>

#include "base/status.h"
#include "cli/cli.h"
#include "cli/commands.h"

namespace fermata::cli {

// Not for people: the server runs it to open a model file in a process of its own.
void add_probe(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("probe-model", "Print what a model file offers.");
  command->group("");
  auto file = std::make_shared<std::string>();
  command->add_option("FILE", *file, "The ONNX file")->required();
  command->callback([file, &exit_code] {
    if (absl::Status printed = engine::print_signature(*file, std::cout); !printed.ok()) {
      std::cerr << message(printed) << "\n";
      exit_code = kFailed;
    }
  });
}

}  // namespace fermata::cli
