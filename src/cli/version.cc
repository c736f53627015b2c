#include <iostream>

#include "cli/cli.h"
#include "cli/commands.h"

namespace fermata::cli {

void add_version(CLI::App& app, int&) {
  app.add_subcommand("version", "Print the version.")->callback([] {
    std::cout << "fermata " << FERMATA_VERSION << "\n";
  });
}

}  // namespace fermata::cli
