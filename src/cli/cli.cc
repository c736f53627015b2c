#include "cli/cli.h"

#include "cli/commands.h"

namespace fermata::cli {

int run(int argc, char** argv) {
  CLI::App app{"Fermata: an inference server that keeps its deadlines."};
  app.name("fermata");
  app.require_subcommand(1);
  app.set_version_flag("--version", "fermata " FERMATA_VERSION);
  int exit_code = kDone;
  for (AddCommand add : kCommands) add(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& done) {
    return app.exit(done);
  } catch (const CLI::ParseError& e) {
    app.exit(e);
    return kBadInput;
  }
  return exit_code;
}

}  // namespace fermata::cli
