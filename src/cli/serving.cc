#include "cli/serving.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_split.h"
#include "base/document.h"
#include "base/status.h"
#include "cli/commands.h"
#include "cli/pass_on.h"
#include "cluster/frontend/frontend_engine.h"
#include "cluster/lock/scheduler_lock.h"
#include "cluster/scheduler/hosts.h"
#include "cluster/wire/beats.h"
#include "engine/apart/apart_executor.h"
#include "engine/execute/run_watch.h"
#include "serve/config/cluster_options.h"
#include "serve/config/divisions.h"
#include "serve/config/lone_model.h"
#include "serve/config/model_source.h"
#include "serve/config/reach.h"
#include "serve/log.h"
#include "serve/server.h"
#include "tune/recorder.h"

namespace fermata::cli {
namespace {

// What may take longer than the requests: a model that is being loaded.
constexpr double kGraceS = 5;

// What differs from part to part.
absl::Status configure_part(const ServeArguments& arguments, serve::Config& config) {
  if (arguments.part == Part::kAll) return absl::OkStatus();
  const bool schedules = arguments.part == Part::kScheduler;
  cluster::Options& cluster = config.cluster;
  if (!cluster.on()) return invalid("{}: expected cluster.listen", arguments.config);
  std::string& host = schedules ? cluster.host : cluster.frontends_host;
  uint16_t& port = schedules ? cluster.port : cluster.frontends_port;
  if (!arguments.listen.empty() && !serve::read_address(arguments.listen, host, port)) {
    return invalid("--listen {}: expected HOST:PORT", arguments.listen);
  }
  if (host.empty()) {
    return invalid("{}: expected cluster.frontends, HOST:PORT for workers, or --listen",
                   arguments.config);
  }
  if (!cluster.tls.on() && !serve::is_loopback(host) && host != "::1") {
    return invalid("--listen {}: expected a loopback address, or cluster.tls: inputs cross hosts",
                   arguments.listen);
  }
  config.engine.inputs_elsewhere = schedules;
  if (schedules) {
    RETURN_IF_ERROR(serve::take_division(arguments.division, cluster, config.engine));
    config.engine.workers.remote = config.hosts = std::make_shared<cluster::Hosts>(cluster);
  }
  return absl::OkStatus();
}

absl::StatusOr<serve::Config> configure(const ServeArguments& arguments) {
  serve::Config config;
  if (!arguments.config.empty()) {
    ASSIGN_OR_RETURN(config, serve::load_config(arguments.config));
  } else if (arguments.models.empty()) {
    return invalid("expected --config FILE or --models FOLDER; fermata serve --help has examples");
  }
  if (!arguments.models.empty()) config.engine.repository = arguments.models;
  serve::ListenOptions& listen = config.listen;
  listen.host = arguments.host.value_or(listen.host);
  listen.is_public = listen.is_public || arguments.is_public;
  if (arguments.admin) listen.admin = true;
  RETURN_IF_ERROR(serve::check_reach(listen));
  listen.http = arguments.http.value_or(listen.http);
  listen.grpc = arguments.grpc.value_or(listen.grpc);
  listen.metrics = arguments.metrics.value_or(listen.metrics);
  if (const absl::Status same = serve::check_ports(listen); !same.ok()) {
    return invalid("{}, expected another port for each", message(same));
  }
  if (arguments.ready) listen.ready_any = *arguments.ready == "any";
  config.exit_on_error = config.exit_on_error || arguments.exit_on_error;
  if (arguments.drain_delay_s) {
    config.drain_delay = Duration::from_seconds(*arguments.drain_delay_s);
  }
  if (!arguments.record.empty() && !config.recorder.on) {
    return invalid("--record, but recorder is off in {}", arguments.config);
  }
  config.log_level = arguments.log_level.value_or(config.log_level);
  RETURN_IF_ERROR(configure_part(arguments, config));
  return config;
}

// SIGINT, SIGTERM and SIGHUP (but under nohup), blocked in every thread that is started from here
// on: one of its own gets them. Make one, and let it live as long as the process.
class StopSignals {
 public:
  StopSignals() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGINT);
    sigaddset(&signals_, SIGTERM);
    struct sigaction hangup = {};
    sigaction(SIGHUP, nullptr, &hangup);
    if (hangup.sa_handler != SIG_IGN) sigaddset(&signals_, SIGHUP);
    // What mean nothing here must not end what is under way.
    for (const int other : {SIGUSR1, SIGUSR2, SIGALRM}) std::signal(other, SIG_IGN);
    keep_for_one_thread(signals_);
    std::signal(SIGPIPE, SIG_IGN);
    std::thread([this] { listen(); }).detach();
  }
  // Until here a signal ends the process, whatever model it loads or store it waits for.
  void begin_to_serve() {
    const std::scoped_lock lock(mutex_);
    serving_ = true;
  }
  // Until a signal asks the server to stop: which.
  int wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return signal_ != 0; });
    return signal_;
  }
  // From now on another signal ends the process whatever it waits for, and so does time: a model
  // that runs without end, or a log that nobody reads.
  void end_by_force_after(double seconds) {
    std::thread([limit = Duration::from_seconds(seconds), signals = signals_] {
      (void)await_signal(signals, limit);
      _exit(kFailed);
    }).detach();
  }

 private:
  void listen() {
    int signal = 0;
    sigwait(&signals_, &signal);
    const std::scoped_lock lock(mutex_);
    if (!serving_) _exit(kDone);  // nothing is under way
    signal_ = signal;
    changed_.notify_all();
  }

  sigset_t signals_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int signal_ = 0;
  bool serving_ = false;
};

void announce(const serve::Config& config, const serve::Ports& ports, const std::string& more) {
  const serve::ListenOptions& listen = config.listen;
  std::cout << fmt::format("ready http={0}:{1} grpc={0}:{2} metrics={0}:{3}", listen.host,
                           ports.http, ports.grpc, ports.metrics);
  if (ports.admin != 0) std::cout << " admin=localhost:" << ports.admin;
  std::cout << more << std::endl;
  spdlog::info(
      "ready; the live page is at http://{0}:{1}/, and curl -X POST "
      "http://{0}:{1}/v2/repository/index lists the models",
      listen.host, ports.http);
}

// Else says in the log what is not served. Where all workers are of other hosts, none can have come
// yet: who listens for them begins later.
bool serves_all(const engine::Engine& engine, bool all_remote) {
  std::vector<engine::ModelStatus> unserved = engine.unserved();
  std::erase_if(unserved, [all_remote](const engine::ModelStatus& row) {
    return all_remote && row.name == "workers" && row.version.empty();
  });
  for (const engine::ModelStatus& row : unserved) {
    spdlog::error("exit_on_error: '{}' is not served: {}", row.name, row.reason);
  }
  const bool none = !engine::serves_any(*engine.catalog());
  if (none) spdlog::error("exit_on_error: no model is served");
  return unserved.empty() && !none;
}

int no_port(const absl::Status& why) {
  spdlog::error("{}; choose another, or 0 for a free port", message(why));
  return kFailed;
}

// The engine of a part, and what makes it one.
struct Serving {
  std::unique_ptr<serve::LoneModel> lone;  // outlives what serves it
  std::unique_ptr<engine::Engine> engine;
  std::shared_ptr<tune::Recorder> recorder;  // where it decides
  std::string announced;
  std::unique_ptr<cluster::SchedulerLock> lock;
};

absl::StatusOr<Serving> make_frontend(const ServeArguments& arguments,
                                      const serve::Config& config) {
  ASSIGN_OR_RETURN(const std::string name, part_name(arguments.name, "frontend"));
  std::vector<std::vector<std::string>> divisions;
  for (const std::string& schedulers : arguments.schedulers) {
    ASSIGN_OR_RETURN(divisions.emplace_back(), scheduler_addresses(schedulers, config));
  }
  if (const size_t named = config.cluster.divisions.size();
      named > 0 && named != divisions.size()) {
    return invalid("--scheduler is there {} times, expected once for each of {} cluster.divisions",
                   divisions.size(), named);
  }
  if (divisions.size() > cluster::kMostDivisions) {
    return invalid("--scheduler is there {} times, expected at most {}", divisions.size(),
                   cluster::kMostDivisions);
  }
  cluster::FrontendEngine::Options options{
      .divisions = std::move(divisions),
      .link = {.name = name, .silence = config.cluster.silence, .tls = config.cluster.tls},
      .host = config.cluster.frontends_host,
      .port = config.cluster.frontends_port,
      .engine = config.engine};
  ASSIGN_OR_RETURN(auto frontend, cluster::FrontendEngine::make(std::move(options)));
  Serving serving;
  serving.announced = fmt::format(" inputs={}:{} scheduler={}", config.cluster.frontends_host,
                                  frontend->port(), fmt::join(arguments.schedulers, ";"));
  serving.engine = std::move(frontend);
  return serving;
}

absl::StatusOr<Serving> make_serving(const ServeArguments& arguments, serve::Config& config) {
  if (arguments.part == Part::kFrontend) return make_frontend(arguments, config);
  Serving serving;
  RETURN_IF_ERROR(serve::bring_models(config));
  if (!arguments.model_name.empty()) {
    ASSIGN_OR_RETURN(serving.lone,
                     serve::LoneModel::find(config.engine.repository, arguments.model_name));
    if (serving.lone != nullptr) config.engine.repository = serving.lone->repository();
  }
  if (config.recorder.on) serving.recorder = std::make_shared<tune::Recorder>(config.recorder);
  config.engine.observer = serving.recorder;
  engine::WorkerOptions& workers = config.engine.workers;
  workers.nursery = serve::make_nursery(config);
  RETURN_IF_ERROR(engine::check_isolation(workers));
  for (const std::string& line : serve::unknown_in_divisions(config)) spdlog::warn("{}", line);
  ASSIGN_OR_RETURN(serving.engine, engine::make_engine(config.engine));
  return serving;
}

// Another may decide soon: no thread of this process may any longer. What waits is asked of the
// next one, and whoever started this process starts it again.
void end_at_once() {
  spdlog::error("stopped at once, since another scheduler may be active soon");
  spdlog::shutdown();
  std::_Exit(kFailed);
}

// Other parts may come from now on.
absl::Status listen_for_parts(const ServeArguments& arguments, const serve::Config& config,
                              engine::Engine& engine, Serving& serving) {
  if (arguments.part == Part::kFrontend || config.hosts == nullptr) return absl::OkStatus();
  cluster::Hosts& hosts = *config.hosts;
  if (arguments.part == Part::kScheduler) {
    hosts.serve_frontends(engine);
    const cluster::LeaseOptions& lease = config.cluster.lease;
    const std::string& file = config.cluster.lock;
    if (lease.on() || !file.empty()) {
      hosts.begin(0);
      const cluster::SchedulerLock::Events events = {
          .held = [&hosts](uint64_t epoch) { hosts.begin(epoch); },
          .lost = end_at_once,
          .heard = [&hosts] { return hosts.heard(); }};
      const Duration file_lease = cluster::lease_of(config.cluster.silence);
      ASSIGN_OR_RETURN(const std::string name, part_name(arguments.name, "scheduler"));
      ASSIGN_OR_RETURN(serving.lock,
                       lease.on() ? cluster::SchedulerLock::of_lease(lease, name, events)
                                  : cluster::SchedulerLock::of_file(file, file_lease, events));
    }
  }
  RETURN_IF_ERROR(hosts.listen());
  serving.announced = fmt::format(" cluster={}:{}", config.cluster.host, hosts.port());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> part_name(const std::string& given, const char* otherwise) {
  char host[256] = {};
  const bool known = gethostname(host, sizeof(host) - 1) == 0 && host[0] != 0;
  const std::string name = !given.empty() ? given : known ? host : otherwise;
  if (!is_name(name)) return invalid("--name: expected {}", kName);
  return name;
}

absl::StatusOr<std::vector<std::string>> scheduler_addresses(const std::string& given,
                                                             const serve::Config& config) {
  const std::vector<std::string> addresses = absl::StrSplit(given, ',');
  for (const std::string& address : addresses) {
    std::string host;
    uint16_t port = 0;
    if (!serve::read_address(address, host, port)) {
      return invalid("--scheduler {}: expected HOST:PORT", address);
    }
    if (!config.cluster.tls.on() && !serve::is_loopback(host)) {
      return invalid("--scheduler {}: it is on another host, expected cluster.tls", address);
    }
  }
  return addresses;
}

int serve_until_stopped(const ServeArguments& arguments) {
  auto config = configure(arguments);
  if (!config.ok()) {
    std::cerr << message(config.status()) << "\n";
    return kBadInput;
  }
  serve::log_as_json(config->log_level);
  if (absl::Status free = serve::Server::try_ports(config->listen); !free.ok())
    return no_port(free);
  static StopSignals& signals = *new StopSignals;
  absl::StatusOr<Serving> serving = make_serving(arguments, *config);
  if (!serving.ok()) {
    spdlog::error("{}", message(serving.status()));
    return kBadInput;
  }
  engine::Engine& engine = *serving->engine;
  if (config->exit_on_error && arguments.part != Part::kFrontend &&
      !serves_all(engine, config->engine.workers.all_remote())) {
    return kBadInput;
  }
  auto server =
      serve::Server::start(config->listen, std::move(serving->engine),
                           {config->engine, serving->recorder, arguments.record, config->tune});
  if (!server.ok()) return no_port(server.status());
  if (absl::Status listens = listen_for_parts(arguments, *config, engine, *serving);
      !listens.ok()) {
    return no_port(listens);
  }
  signals.begin_to_serve();
  announce(*config, (*server)->ports(), serving->announced);
  const int signal = signals.wait();
  const double delay_s = signal == SIGTERM ? config->drain_delay.seconds() : 0;
  signals.end_by_force_after(delay_s + arguments.drain_s + kGraceS);
  if (delay_s > 0) {
    (*server)->leave();
    spdlog::info("not ready since signal {}; stops in {} s and serves until then", signal, delay_s);
    std::this_thread::sleep_for(std::chrono::duration<double>(delay_s));
  }
  spdlog::info("stopping on signal {}; what is under way ends first", signal);
  serving->lock.reset();  // another scheduler may begin
  if (arguments.part == Part::kScheduler) config->hosts->end_frontends();
  (*server)->stop(Duration::from_seconds(arguments.drain_s));
  spdlog::info("stopped");
  if (engine::abandoned_runs() > 0) {
    spdlog::shutdown();
    std::_Exit(kDone);  // a thread is in a model still and does not come back
  }
  return kDone;
}

void add_serving_options(CLI::App& command, ServeArguments& arguments) {
  command.add_option("--config", arguments.config, "fermata.yaml (docs/configuration.md)");
  command.add_option("--host", arguments.host, "Address to listen on");
  command.add_flag("--public", arguments.is_public,
                   "Let other machines connect; needed unless --host is loopback");
  command.add_flag("--admin", arguments.admin,
                   "Answer administrative calls although --host is not loopback");
  command.add_option("--http-port", arguments.http, "HTTP port, 0: any free one");
  command.add_option("--grpc-port", arguments.grpc, "gRPC port, 0: any free one");
  command.add_option("--metrics-port", arguments.metrics, "Metrics port, 0: any free one");
  command.add_option("--log-level", arguments.log_level, "What the log says")
      ->check(CLI::IsMember({"debug", "info", "warning", "error", "off"}));
  command
      .add_option("--ready", arguments.ready,
                  "Which models must be served for the server to be ready: all, or any")
      ->check(CLI::IsMember({"all", "any"}));
  command
      .add_option(
          "--drain-delay", arguments.drain_delay_s,
          "Seconds after SIGTERM in which the server is not ready but serves as before, so that "
          "load balancers stop sending")
      ->check(CLI::Range(0.0, 3600.0));
  command
      .add_option("--drain", arguments.drain_s,
                  "Seconds that requests in flight have to end when the server stops")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  if (arguments.part == Part::kFrontend) return;
  command.add_flag("--exit-on-error", arguments.exit_on_error,
                   "Exit with code 2 if a model or a service cannot be served");
  command.add_option("--record", arguments.record,
                     "Append the recorder's content to this file, a line whenever it is full, for "
                     "fermata simulate --recorded");
}

}  // namespace fermata::cli
