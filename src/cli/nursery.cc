#include "engine/confine/nursery.h"

#include <memory>
#include <string>

#include "cli/cli.h"
#include "cli/commands.h"
#include "engine/apart/model_process.h"

namespace fermata::cli {

// Not for people: the server runs it, and it becomes the server's processes for models.
void add_nursery(CLI::App& app, int& /*exit_code*/) {
  CLI::App* command = app.add_subcommand("nursery", "Start processes of a server.");
  command->group("");
  auto threads = std::make_shared<std::string>();
  command->add_option("threads", *threads, "OPENBLAS_NUM_THREADS of the server");
  command->callback(
      [threads] { engine::be_nursery(*threads, run, engine::apart::open_for_copies); });
}

}  // namespace fermata::cli
