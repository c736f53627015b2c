#include <memory>

#include "cli/commands.h"
#include "cli/serving.h"

namespace fermata::cli {
namespace {

constexpr char kFrontendExamples[] =
    "Example: fermata scheduler --help has one with all parts.\n"
    "A frontend speaks with clients and keeps their inputs. The scheduler hears of a request what "
    "it\n"
    "needs to decide; the worker that it chooses fetches the inputs from the frontend and brings "
    "the\n"
    "outputs back. It needs no models (docs/cluster.md). When the scheduler is gone, the frontend "
    "asks\n"
    "the next one of --scheduler for what waits.";

}  // namespace

void add_frontend(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "frontend", "Speak with clients for a scheduler that is a process of its own.");
  auto arguments = std::make_shared<ServeArguments>();
  arguments->part = Part::kFrontend;
  add_serving_options(*command, *arguments);
  command->get_option("--config")->required();
  command
      ->add_option("--scheduler", arguments->schedulers,
                   "HOST:PORT at which a fermata scheduler listens (cluster.listen); several, with "
                   "commas: the first that takes it. Once for each of cluster.divisions")
      ->allow_extra_args(false)
      ->required();
  command->add_option("--listen", arguments->listen,
                      "HOST:PORT for workers, which fetch inputs there; else cluster.frontends");
  command->add_option("--name", arguments->name,
                      "This frontend in metrics and logs; else its host's name");
  command->footer(kFrontendExamples);
  command->callback([arguments, &exit_code] { exit_code = serve_until_stopped(*arguments); });
}

}  // namespace fermata::cli
