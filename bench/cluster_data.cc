// How much data a server brings to a worker on another host, without any protocol of clients.
// Prints the port on which it waits, then bytes a second of each round; a line on standard input
// begins one.
//   bench_cluster_data serve ADDRESS REPOSITORY FERMATA SLOTS     (bench/cluster_data.py does both)
//   bench_cluster_data work ADDRESS:PORT REPOSITORY FERMATA SLOTS
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>
#include <thread>

#include "cluster/scheduler/hosts.h"
#include "cluster/worker/worker.h"
#include "engine/engine.h"
#include "engines.h"

namespace {

using namespace fermata;
using namespace fermata::engine;

constexpr char kModel[] = "wide";

EngineOptions options_of(char** argv) {
  EngineOptions options;
  options.repository = argv[3];
  options.probe_program = options.workers.program = argv[4];
  options.workers.types = {
      WorkerType{.name = "far", .count = static_cast<uint32_t>(std::atoi(argv[5]))}};
  return options;
}

int work(char** argv) {
  cluster::Worker::Options options{.scheduler = argv[2], .name = "far"};
  options.engine = options_of(argv);
  auto worker = cluster::Worker::make(std::move(options), [](uint32_t) {});
  if (!worker.ok()) return 1;
  (*worker)->run();
  return 0;
}

bool all_serve(const Engine& engine) {
  for (const WorkerStatistics& worker : engine.snapshot().workers) {
    if (!worker.serving) return false;
  }
  return true;
}

int serve(char** argv) {
  auto hosts = std::make_shared<cluster::Hosts>(
      cluster::Options{.host = argv[2], .silence = Duration::seconds(5)});
  EngineOptions options = options_of(argv);
  options.workers.types.front().remote = true;
  options.workers.remote = hosts;
  const auto engine = engine_of(std::move(options));
  if (!hosts->listen().ok()) return 1;
  std::cout << hosts->port() << std::endl;
  while (!all_serve(*engine)) std::this_thread::yield();
  const Tensor input = input_of(*engine, kModel);
  std::string line;
  while (std::getline(std::cin, line)) {
    std::cout << per_second(*engine, kModel, input) * static_cast<double>(input.data.bytes.size())
              << std::endl;
  }
  _exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  spdlog::set_default_logger(spdlog::stderr_logger_st("bench"));
  spdlog::set_level(spdlog::level::warn);
  std::signal(SIGPIPE, SIG_IGN);
  if (argc != 6) return 2;
  return std::string_view(argv[1]) == "work" ? work(argv) : serve(argv);
}
