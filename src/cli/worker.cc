#include "cluster/worker/worker.h"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/algorithm/container.h"
#include "base/document.h"
#include "base/status.h"
#include "cli/commands.h"
#include "cli/pass_on.h"
#include "cli/serving.h"
#include "engine/apart/apart_executor.h"
#include "engine/confine/machine.h"
#include "serve/config/config.h"
#include "serve/config/model_source.h"
#include "serve/log.h"

namespace fermata::cli {
namespace {

constexpr char kWorkerExamples[] =
    "Example, with this document as fermata.yaml:\n"
    "  fermata worker --scheduler localhost:7400 --config fermata.yaml --workers 2\n"
    "\n"
    "  models: zoo/repository\n"
    "  cluster: {listen: 'localhost:7400'}\n"
    "  workers:\n"
    "    types: [{name: here, count: 1}, {name: far, count: 8, remote: true}]\n"
    "\n"
    "The scheduler is a `fermata serve` with the same document, on this host or another\n"
    "(docs/cluster.md). Standard output has one line, when it has taken the workers; the log goes\n"
    "to standard error. SIGINT or SIGTERM: what runs ends first, for as long as --drain says; a\n"
    "second one ends it at once.";

struct WorkerArguments {
  std::string scheduler, config, type, name, ready_file;
  std::optional<uint32_t> workers;
  std::optional<std::string> log_level;
  double drain_s = 10;
};

// The remote type that these workers are of, as one of this host.
absl::StatusOr<engine::WorkerType> own_type(const WorkerArguments& arguments,
                                            const engine::WorkerOptions& workers) {
  const auto type = absl::c_find_if(workers.types, [&](const engine::WorkerType& each) {
    return each.remote && (arguments.type.empty() || each.name == arguments.type);
  });
  if (type == workers.types.end()) {
    return arguments.type.empty()
               ? invalid("{}: no type of workers is remote, expected one with remote: true",
                         arguments.config)
               : invalid("--type {}: {} has no remote type of that name", arguments.type,
                         arguments.config);
  }
  engine::WorkerType own = *type;
  own.remote = false;
  const uint32_t fitting = std::max(engine::own_cores() / std::max(own.threads, 1u), 1u);
  own.count = arguments.workers.value_or(std::min(own.count, fitting));
  return own;
}

absl::StatusOr<cluster::Worker::Options> worker_of(const WorkerArguments& arguments,
                                                   serve::Config& config) {
  ASSIGN_OR_RETURN(const engine::WorkerType own, own_type(arguments, config.engine.workers));
  ASSIGN_OR_RETURN(const std::string name, part_name(arguments.name, "worker"));
  ASSIGN_OR_RETURN(auto schedulers, scheduler_addresses(arguments.scheduler, config));
  config.engine.workers.types = {own};
  config.engine.workers.remote = nullptr;
  config.engine.workers.program = config.engine.probe_program;
  config.engine.workers.nursery = serve::make_nursery(config);
  RETURN_IF_ERROR(engine::check_isolation(config.engine.workers));
  return cluster::Worker::Options{.schedulers = std::move(schedulers),
                                  .name = name,
                                  .host = config.cluster.workers_host,
                                  .port = config.cluster.workers_port,
                                  .tls = config.cluster.tls,
                                  .engine = config.engine};
}

int refuse(const absl::Status& why) {
  std::cerr << message(why) << "\n";
  return kBadInput;
}

// That a probe may look for: it is there while a scheduler has these workers, and they do not
// leave.
class ReadyFile {
 public:
  explicit ReadyFile(std::string path) : path_(std::move(path)) { take_away(); }
  void put() const {
    if (!path_.empty() && !std::ofstream(path_)) {
      spdlog::error("--ready-file {}: it cannot be written", path_);
    }
  }
  void take_away() const {
    if (!path_.empty()) unlink(path_.c_str());
  }

 private:
  const std::string path_;
};

// Blocks them for every thread that is started from here on.
sigset_t stop_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int each : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, each);
  keep_for_one_thread(signals);
  std::signal(SIGPIPE, SIG_IGN);
  return signals;
}

int work_until_stopped(const WorkerArguments& arguments) {
  auto config = serve::load_config(arguments.config);
  if (!config.ok()) return refuse(config.status());
  serve::log_as_json(arguments.log_level.value_or(config->log_level));
  const sigset_t signals = stop_signals();
  if (absl::Status brought = serve::bring_models(*config); !brought.ok()) return refuse(brought);
  auto options = worker_of(arguments, *config);
  if (!options.ok()) return refuse(options.status());
  const std::string host = options->name;
  const ReadyFile ready(arguments.ready_file);
  auto worker =
      cluster::Worker::make(*std::move(options), [&, said = false](uint32_t workers) mutable {
        ready.put();
        if (std::exchange(said, true)) return;
        std::cout << fmt::format("joined host={} scheduler={} workers={}", host,
                                 arguments.scheduler, workers)
                  << std::endl;
      });
  if (!worker.ok()) return refuse(worker.status());
  std::thread([&] {
    (*worker)->run();
    kill(getpid(), SIGTERM);  // it has left: nobody has to wait longer
  }).detach();
  int signal = 0;
  sigwait(&signals, &signal);
  spdlog::info("leaving on signal {}; what runs ends first", signal);
  ready.take_away();
  (*worker)->leave();
  if (!await_signal(signals, Duration::from_seconds(arguments.drain_s))) {
    spdlog::warn("what runs did not end in time");
  }
  spdlog::shutdown();
  _exit(kDone);  // threads may be in a model still
}

}  // namespace

void add_worker(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("worker", "Bring this host's workers to a scheduler on another host.");
  auto arguments = std::make_shared<WorkerArguments>();
  command
      ->add_option(
          "--scheduler", arguments->scheduler,
          "HOST:PORT at which a fermata serve or scheduler listens (cluster.listen); several, "
          "with commas: the first that takes them")
      ->required();
  command->add_option("--config", arguments->config, "fermata.yaml, the scheduler's")->required();
  command->add_option("--type", arguments->type,
                      "Which of its remote types of workers these are; else the first");
  command
      ->add_option("--workers", arguments->workers,
                   "How many; else one for each of this host's processors and workers.threads, "
                   "at most the type's count")
      ->check(CLI::Range(1, 1024));
  command->add_option("--name", arguments->name, "This host in metrics and logs; else its name");
  command->add_option(
      "--ready-file", arguments->ready_file,
      "A file that is there from when the scheduler has taken the workers until they "
      "leave, for probes");
  command->add_option("--log-level", arguments->log_level, "What the log says")
      ->check(CLI::IsMember({"debug", "info", "warning", "error", "off"}));
  command->add_option("--drain", arguments->drain_s, "Seconds that what runs has to end")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  command->footer(kWorkerExamples);
  command->callback([arguments, &exit_code] { exit_code = work_until_stopped(*arguments); });
}

}  // namespace fermata::cli
