#include "engine/execute/nursery.h"

#include "cli/cli.h"
#include "cli/commands.h"

namespace fermata::cli {

// Not for people: the server runs it, and it becomes the server's processes for models.
void add_nursery(CLI::App& app, int& /*exit_code*/) {
  CLI::App* command = app.add_subcommand("nursery", "Start processes of a server.");
  command->group("");
  command->callback([] { engine::be_nursery(run); });
}

}  // namespace fermata::cli
