#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/document.h"
#include "base/histogram.h"
#include "base/status.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/demo_links.h"
#include "cli/spawned.h"

namespace fermata::cli {
namespace {

constexpr const char* kDemoExamples = R"(Examples:
  sudo fermata demo streams                                  # from the project's folder: the zoo's shapes
  sudo fermata demo streams --clients 8 --duration 60 --rate 5
  seq 40 -1 1 > uplink.txt                                   # Mbit/s, one a second
  sudo fermata demo streams --trace uplink.txt

Starts a server and clients, each in a network namespace of its own behind a link whose bandwidth
follows a trace, and shows how their frames end. The server's pages are at the address that
it prints. Ctrl-C ends it. It removes the namespaces when it ends.)";

constexpr Duration kRedraw = Duration::seconds(1);
constexpr int kPollMs = 100;

struct DemoArguments {
  std::string config = "zoo/fermata.yaml", service = "shapes", source = "zoo/data/shapes";
  std::vector<std::string> traces;
  size_t clients = 4;
  double duration_s = 30, rate = 10, slo_ms = 200;
  uint16_t http_port = 8000;
  std::string log;
};

volatile std::sig_atomic_t told_to_end = 0;

std::string this_program() { return std::filesystem::read_symlink("/proc/self/exe"); }

// One client, as its lines tell.
struct DemoClient {
  Spawned process;
  std::string trace;
  uint64_t on_time = 0, late = 0, failed = 0, dropped = 0, unmapped = 0;
  std::string last_error;
  int64_t input_size = 0;
  double estimate_mbps = 0;
  Histogram latencies;

  void hear(const std::string& line, double slo_ms) {
    const Json told = Json::parse(line, nullptr, false);
    if (!told.is_object() || told.contains("summary")) return;
    if (told.contains("dropped")) {
      ++dropped;
    } else if (told.contains("unmapped")) {
      ++unmapped;
    } else if (told.contains("error")) {
      ++failed;
      last_error =
          told["error"].is_string() ? told["error"].get<std::string>() : told["error"].dump();
    } else {
      const double latency_ms = told.value("latency_ms", 0.0);
      ++(latency_ms <= slo_ms ? on_time : late);
      latencies.record(Duration::from_millis(latency_ms));
      input_size = told.value("input_size", int64_t{0});
      estimate_mbps = told.value("bandwidth_mbps", estimate_mbps);
    }
  }
  Json summary() const {
    Json row = {{"trace", trace},          {"on_time", on_time}, {"late", late},
                {"failed", failed},        {"dropped", dropped}, {"unmapped", unmapped},
                {"input_size", input_size}};
    if (failed > 0) row["last_error"] = last_error;
    if (on_time + late > 0) {
      row["latency_ms"] = {{"p50", latencies.quantile(0.5).millis()},
                           {"p99", latencies.quantile(0.99).millis()}};
    }
    return row;
  }
};

class Demo {
 public:
  Demo(const DemoArguments& arguments, DemoLinks links, Spawned server)
      : arguments_(arguments), links_(std::move(links)), server_(std::move(server)) {}

  absl::Status run(const std::vector<LinkTrace>& traces) {
    for (size_t i = 0; i < traces.size(); ++i) {
      ASSIGN_OR_RETURN(Spawned client, Spawned::start(client_words(i), arguments_.log));
      clients_.push_back({std::move(client), traces[i].name});
    }
    const Time start = monotonic_now();
    const Time end = start + Duration::from_seconds(arguments_.duration_s);
    for (Time redraw = start; monotonic_now() < end && told_to_end == 0;) {
      if (monotonic_now() >= redraw) {
        RETURN_IF_ERROR(links_.shape(monotonic_now() - start));
        draw((monotonic_now() - start).seconds());
        redraw = redraw + kRedraw;
      }
      listen();
      if (server_.ended()) return failed("the server has ended");
    }
    for (DemoClient& client : clients_) client.process.stop();
    listen();
    draw(std::min((monotonic_now() - start).seconds(), arguments_.duration_s));
    Json rows = Json::array();
    for (const DemoClient& client : clients_) rows.push_back(client.summary());
    std::cout << Json{{"slo_ms", arguments_.slo_ms}, {"clients", rows}}.dump() << std::endl;
    const auto silent = [](const DemoClient& c) { return c.on_time + c.late + c.unmapped == 0; };
    const bool some = std::any_of(clients_.begin(), clients_.end(), silent);
    return some && told_to_end == 0 ? failed("a client has had no answer") : absl::OkStatus();
  }

 private:
  absl::Status failed(std::string_view what) const {
    return error(absl::StatusCode::kUnavailable, "{}; {} has what it said", what, arguments_.log);
  }

  std::vector<std::string> client_words(size_t client) const {
    return links_.inside(
        client,
        {this_program(), "stream", arguments_.source, "--loop", "--service", arguments_.service,
         "--url", fmt::format("{}:{}", DemoLinks::kServer, grpc_port()), "--rate",
         fmt::format("{}", arguments_.rate), "--slo", fmt::format("{}", arguments_.slo_ms),
         "--client", fmt::format("client-{}", client)});
  }
  int grpc_port() const { return arguments_.http_port + 1; }

  // What the clients say within a moment.
  void listen() {
    std::vector<pollfd> outputs = {{server_.output(), POLLIN, 0}};
    for (const DemoClient& client : clients_) {
      if (!client.process.ended()) outputs.push_back({client.process.output(), POLLIN, 0});
    }
    poll(outputs.data(), outputs.size(), kPollMs);
    for (DemoClient& client : clients_) {
      while (const auto line = client.process.line()) client.hear(*line, arguments_.slo_ms);
    }
    (void)server_.line();
  }

  // Over what was drawn before on a terminal; else below it, every ten seconds.
  void draw(double seconds) {
    const bool terminal = isatty(STDERR_FILENO) != 0;
    if (!terminal && drawn_ && seconds < last_ + 10 && seconds < arguments_.duration_s) return;
    last_ = seconds;
    std::string text;
    if (terminal && drawn_) text += fmt::format("\x1b[{}A", clients_.size() + 1);
    drawn_ = true;
    const char* clear = terminal ? "\x1b[K\n" : "\n";
    text += fmt::format("{:>4.0f} s  {:<12}{:>10}{:>10}{:>6}{:>9}{:>7}{:>8}{:>9}{:>10}{}", seconds,
                        "trace", "Mbit/s", "estimate", "size", "on time", "late", "failed",
                        "dropped", "p50 ms", clear);
    for (size_t i = 0; i < clients_.size(); ++i) {
      const DemoClient& c = clients_[i];
      const bool some = c.on_time + c.late > 0;
      text += fmt::format("{:>6}  {:<12}{:>10.2f}{:>10.2f}{:>6}{:>9}{:>7}{:>8}{:>9}{:>10.1f}{}", i,
                          c.trace.substr(0, 12), links_.mbps(i), c.estimate_mbps, c.input_size,
                          c.on_time, c.late, c.failed, c.dropped + c.unmapped,
                          some ? c.latencies.quantile(0.5).millis() : 0.0, clear);
    }
    std::cerr << text << std::flush;
  }

  const DemoArguments& arguments_;
  DemoLinks links_;  // goes after those that use it
  Spawned server_;
  std::vector<DemoClient> clients_;
  double last_ = 0;
  bool drawn_ = false;
};

absl::StatusOr<std::vector<LinkTrace>> traces_of(const DemoArguments& arguments) {
  std::vector<LinkTrace> kinds, all;
  for (const std::string& file : arguments.traces) {
    ASSIGN_OR_RETURN(LinkTrace trace, read_trace(file));
    kinds.push_back(std::move(trace));
  }
  if (kinds.empty()) kinds = made_traces();
  for (size_t i = 0; i < arguments.clients; ++i) all.push_back(kinds[i % kinds.size()]);
  return all;
}

absl::StatusOr<Spawned> start_server(const DemoArguments& arguments) {
  const auto port = [&](int more) { return std::to_string(arguments.http_port + more); };
  ASSIGN_OR_RETURN(Spawned server,
                   Spawned::start({this_program(), "serve", "--config", arguments.config, "--host",
                                   DemoLinks::kServer, "--public", "--admin", "--http-port",
                                   port(0), "--grpc-port", port(1), "--metrics-port", port(2)},
                                  arguments.log));
  std::cerr << "starting the server\n";
  if (!server.wait_for_line()) {
    return error(absl::StatusCode::kUnavailable,
                 "the server did not start; {} says why (--http-port N takes other ports)",
                 arguments.log);
  }
  std::cerr << fmt::format("pages: http://{0}:{1}/ and http://{0}:{1}/stream\n", DemoLinks::kServer,
                           arguments.http_port);
  return server;
}

// A file that nobody can have made before.
absl::StatusOr<std::string> new_log() {
  constexpr std::string_view kEnd = ".log";
  std::string name = std::filesystem::temp_directory_path() / "fermata-demo-XXXXXX";
  name += kEnd;
  const int file = mkstemps(name.data(), kEnd.size());
  if (file < 0) return invalid("{} cannot be made: {}; --log names another", name, strerror(errno));
  close(file);
  return name;
}

absl::Status demo_streams(DemoArguments& arguments) {
  for (const std::string& path : {arguments.config, arguments.source}) {
    if (!std::filesystem::exists(path)) {
      return invalid(
          "{} is not there; run this in the project's folder, or name another with "
          "--config and --source",
          path);
    }
  }
  ASSIGN_OR_RETURN(const std::vector<LinkTrace> traces, traces_of(arguments));
  if (arguments.log.empty()) {
    ASSIGN_OR_RETURN(arguments.log, new_log());
  }
  ASSIGN_OR_RETURN(DemoLinks links, DemoLinks::make(traces));
  ASSIGN_OR_RETURN(Spawned server, start_server(arguments));
  return Demo(arguments, std::move(links), std::move(server)).run(traces);
}

int run_demo_streams(DemoArguments& arguments) {
  std::signal(SIGPIPE, SIG_IGN);  // who reads what it says may go before it does
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    std::signal(signal, [](int) { told_to_end = 1; });
  }
  const absl::Status done = demo_streams(arguments);
  if (done.ok()) return kDone;
  std::cerr << "fermata demo streams: " << message(done) << "\n";
  return done.code() == absl::StatusCode::kInvalidArgument ? kBadInput : kFailed;
}

}  // namespace

void add_demo(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<DemoArguments>();
  CLI::App* demo = app.add_subcommand("demo", "Show what the server does, on this machine.");
  demo->require_subcommand(1);
  CLI::App* command = demo->add_subcommand(
      "streams", "Clients of a stream service on links whose bandwidth changes. Needs root.");
  command->footer(kDemoExamples);
  command->add_option("--clients", arguments->clients, "Number of clients")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_option("--duration", arguments->duration_s, "Seconds")
      ->check(CLI::Range(1.0, 3600.0))
      ->capture_default_str();
  command->add_option("--rate", arguments->rate, "Frames a second of each client")
      ->check(CLI::Range(0.1, 120.0))
      ->capture_default_str();
  command->add_option("--slo", arguments->slo_ms, "Milliseconds from a frame to its answer")
      ->check(CLI::Range(1.0, 3600e3))
      ->capture_default_str();
  command->add_option("--trace", arguments->traces,
                      "A file with Mbit/s, one per line and second; clients take the files in turn "
                      "(default: the synthetic lte, wifi and synthetic)");
  command->add_option("--config", arguments->config, "Configuration of the server")
      ->capture_default_str();
  command->add_option("--service", arguments->service, "The stream service")->capture_default_str();
  command->add_option("--source", arguments->source, "The clients' frames")->capture_default_str();
  command
      ->add_option("--http-port", arguments->http_port,
                   "HTTP port; gRPC and metrics take the next two")
      ->check(CLI::Range(1, 65533))
      ->capture_default_str();
  command->add_option("--log", arguments->log,
                      "File for the output of the server and the clients (a file in the system's "
                      "folder for temporary files)");
  command->callback([arguments, &exit_code] { exit_code = run_demo_streams(*arguments); });
}

}  // namespace fermata::cli
