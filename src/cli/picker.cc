#include <fmt/format.h>
#include <signal.h>

#include <csignal>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "base/status.h"
#include "cli/commands.h"
#include "cli/pass_on.h"
#include "gateway/picker_server.h"
#include "serve/log.h"

namespace fermata::cli {
namespace {

constexpr char kPickerExamples[] =
    "Example, of two servers behind an Envoy that asks localhost:9002 (docs/kubernetes.md):\n"
    "  fermata picker --server 10.0.0.5:8000 --server 10.0.0.6:8000 --slo-ms 50\n"
    "  fermata picker --listen 0.0.0.0:9002 --server triton.default.svc:8000 --objective chat=200\n"
    "Standard output has one line, when it listens; the log goes to standard error. SIGINT or\n"
    "SIGTERM stops it.";

struct PickerArguments {
  gateway::PickerOptions options;
  std::vector<std::string> objectives;
  double slo_ms = 1000;
  std::string log_level = "info";
};

absl::Status read_objectives(PickerArguments& arguments) {
  for (const std::string& text : arguments.objectives) {
    const size_t equals = text.find('=');
    double ms = 0;
    if (equals == 0 || equals == std::string::npos ||
        !absl::SimpleAtod(text.substr(equals + 1), &ms) || !(ms > 0)) {
      return invalid("--objective {}: expected NAME=MILLISECONDS", text);
    }
    arguments.options.objectives[text.substr(0, equals)] = Duration::from_millis(ms);
  }
  arguments.options.slo = Duration::from_millis(arguments.slo_ms);
  if (arguments.options.certificate.empty() != arguments.options.key.empty()) {
    return invalid("--tls-certificate and --tls-key: expected both, or none");
  }
  return absl::OkStatus();
}

int pick_until_stopped(PickerArguments& arguments) {
  if (const absl::Status bad = read_objectives(arguments); !bad.ok()) {
    std::cerr << message(bad) << "\n";
    return kBadInput;
  }
  serve::log_as_json(arguments.log_level);
  sigset_t signals;
  sigemptyset(&signals);
  for (const int each : {SIGINT, SIGTERM}) sigaddset(&signals, each);
  keep_for_one_thread(signals);
  auto server = gateway::PickerServer::start(arguments.options);
  if (!server.ok()) {
    std::cerr << message(server.status()) << "\n";
    return absl::IsInvalidArgument(server.status()) ? kBadInput : kFailed;
  }
  std::cout << "ready picker=" << (*server)->port() << std::endl;
  int signal = 0;
  sigwait(&signals, &signal);
  return kDone;
}

}  // namespace

void add_picker(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "picker", "Choose a server for each request of a gateway (Envoy's ext_proc).");
  auto arguments = std::make_shared<PickerArguments>();
  command->add_option("--listen", arguments->options.listen, "HOST:PORT for the gateway")
      ->capture_default_str();
  command
      ->add_option("--server", arguments->options.servers,
                   "HOST:PORT of a server, repeatable; each address of a name is one, looked up "
                   "every second")
      ->required();
  command->add_option("--slo-ms", arguments->slo_ms, "Time for requests that name none")
      ->check(CLI::Range(0.1, 1e7))
      ->capture_default_str();
  command->add_option("--objective", arguments->objectives,
                      "NAME=MILLISECONDS for requests with the header x-llm-d-inference-objective: "
                      "NAME, repeatable");
  command->add_option("--tls-certificate", arguments->options.certificate, "PEM file");
  command->add_option("--tls-key", arguments->options.key, "PEM file");
  command->add_option("--log-level", arguments->log_level, "What the log says")
      ->check(CLI::IsMember({"debug", "info", "warning", "error", "off"}));
  command->footer(kPickerExamples);
  command->callback([arguments, &exit_code] { exit_code = pick_until_stopped(*arguments); });
}

}  // namespace fermata::cli
