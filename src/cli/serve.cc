#include <memory>

#include "cli/commands.h"
#include "cli/serving.h"

namespace fermata::cli {
namespace {

constexpr char kServeExamples[] =
    "Examples:\n"
    "  fermata serve --config zoo/fermata.yaml\n"
    "  fermata serve --models zoo/repository --http-port 0   # a free port, named on standard "
    "output\n"
    "  fermata serve --models s3://bucket/models         # keys from AWS_ACCESS_KEY_ID and so on\n"
    "Standard output has one line, when the server is ready; the log goes to standard error, one\n"
    "JSON object a line. SIGINT and SIGTERM stop the server: requests in flight have --drain "
    "seconds\n"
    "to end, after SIGTERM from the end of --drain-delay on. A second signal, or one before the "
    "server\n"
    "is ready, ends it at once.";

}  // namespace

void add_serve(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("serve", "Serve models over HTTP and gRPC.");
  auto arguments = std::make_shared<ServeArguments>();
  add_serving_options(*command, *arguments);
  command->add_option("--models", arguments->models,
                      "Model repository; replaces the one of the configuration");
  command->add_option("--model-name", arguments->model_name,
                      "What the model is called, where --models is the folder of one model instead "
                      "of a repository");
  command->footer(kServeExamples);
  command->callback([arguments, &exit_code] { exit_code = serve_until_stopped(*arguments); });
}

}  // namespace fermata::cli
