#include <memory>

#include "cli/commands.h"
#include "cli/serving.h"

namespace fermata::cli {
namespace {

constexpr char kSchedulerExamples[] =
    "Example, with this document as fermata.yaml:\n"
    "  fermata scheduler --config fermata.yaml --http-port 0 --grpc-port 0 --metrics-port 0\n"
    "  fermata frontend --config fermata.yaml --scheduler localhost:7400\n"
    "  fermata worker --config fermata.yaml --scheduler localhost:7400 --workers 2\n"
    "\n"
    "  models: zoo/repository\n"
    "  cluster: {listen: 'localhost:7400', frontends: 'localhost:7410'}\n"
    "  workers:\n"
    "    types: [{name: far, count: 8, remote: true}]\n"
    "\n"
    "It answers questions about models and metrics over HTTP and gRPC, and takes no inference: "
    "clients\n"
    "ask a frontend. With cluster.lock, a file that all schedulers see, or cluster.lease, a Lease "
    "of\n"
    "Kubernetes, one is active and the others stand by (docs/cluster.md).";

}  // namespace

void add_scheduler(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "scheduler", "Decide for frontends and workers, which are processes of their own.");
  auto arguments = std::make_shared<ServeArguments>();
  arguments->part = Part::kScheduler;
  add_serving_options(*command, *arguments);
  command->get_option("--config")->required();
  command->add_option("--listen", arguments->listen,
                      "HOST:PORT for frontends and workers; else cluster.listen");
  command->add_option("--division", arguments->division,
                      "Whose models it decides about, of cluster.divisions");
  command->footer(kSchedulerExamples);
  command->callback([arguments, &exit_code] { exit_code = serve_until_stopped(*arguments); });
}

}  // namespace fermata::cli
