// What a worker in another process over loopback costs beside one on a thread of the server,
// without any protocol of clients, and what a connection carries. Rounds take turns. Prints one
// JSON object.
//   bench_cluster REPOSITORY FERMATA ROUNDS      (bench/cluster.py writes the repository)
//   bench_cluster worker PORT REPOSITORY FERMATA (which the first starts)
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <future>
#include <iostream>
#include <nlohmann/json.hpp>
#include <semaphore>
#include <thread>

#include "base/clock.h"
#include "base/document.h"
#include "base/histogram.h"
#include "cluster/scheduler/hosts.h"
#include "cluster/wire/tcp_channel.h"
#include "cluster/worker/worker.h"
#include "engine/engine.h"
#include "engines.h"

namespace {

using namespace fermata;
using namespace fermata::engine;

constexpr size_t kInput = 150'000;  // bytes

EngineOptions options_of(const char* repository, const char* fermata) {
  EngineOptions options;
  options.repository = repository;
  options.probe_program = options.workers.program = fermata;
  options.workers.types = {WorkerType{.name = "far"}};
  options.workers.isolation = Isolation::kThread;
  return options;
}

template <class Measure>
Json compared(Engine& here, Engine& far, const std::string& model, int rounds, Measure measure) {
  const Comparison made = compare(here, far, model, rounds, measure);
  return {{"here", made.first},
          {"far", made.second},
          {"difference", made.difference},
          {"ratio", made.ratio}};
}

// Frames of one direction over loopback, from one thread to another, a second.
double frames_per_second(size_t payload) {
  const auto acceptor = *cluster::Tcp::listen("127.0.0.1", 0);
  const std::string address = "127.0.0.1:" + std::to_string(acceptor->port());
  auto sender = *cluster::Tcp::connect(address, Duration::seconds(10));
  const auto receiver = *acceptor->accept();
  std::atomic<uint64_t> received{0};
  std::thread thread([&] {
    while (receiver->receive().ok()) ++received;
  });
  cluster::Message message;
  message.mutable_beat()->set_number(1);
  const std::vector<std::byte> bytes(payload);
  const cluster::Channel::Bytes all[] = {bytes};
  const Time start = monotonic_now();
  while (monotonic_now() - start < kMany) (void)sender->send(message, all);
  const double rate = static_cast<double>(received) / (monotonic_now() - start).seconds();
  sender->cut();
  thread.join();
  return rate;
}

int work(char** argv) {
  cluster::Worker::Options options{.schedulers = {std::string("127.0.0.1:") + argv[2]},
                                   .name = "far"};
  options.engine = options_of(argv[3], argv[4]);
  auto worker = cluster::Worker::make(std::move(options), [](uint32_t) {});
  if (!worker.ok()) return 1;
  (*worker)->run();
  return 0;
}

pid_t start_worker(const char* self, uint16_t port, char** argv) {
  const pid_t child = fork();
  if (child != 0) return child;
  execl(self, self, "worker", std::to_string(port).c_str(), argv[1], argv[2], nullptr);
  _exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  spdlog::set_default_logger(spdlog::stderr_logger_st("bench"));
  spdlog::set_level(spdlog::level::warn);
  std::signal(SIGPIPE, SIG_IGN);
  if (argc == 5 && std::string_view(argv[1]) == "worker") return work(argv);
  if (argc != 4) return 2;
  const int rounds = std::atoi(argv[3]);
  auto hosts = std::make_shared<cluster::Hosts>(
      cluster::Options{.host = "127.0.0.1", .silence = Duration::seconds(5)});
  EngineOptions far_options = options_of(argv[1], argv[2]);
  far_options.workers.types.front().remote = true;
  far_options.workers.remote = hosts;
  const auto here = engine_of(options_of(argv[1], argv[2]));
  const auto far = engine_of(std::move(far_options));
  if (!hosts->listen().ok()) return 1;
  const pid_t child = start_worker("/proc/self/exe", hosts->port(), argv);
  while (!far->snapshot().workers.front().serving) std::this_thread::yield();

  Json result;
  for (const char* model : {"small", "wide"}) {
    result["alone_us"][model] = compared(*here, *far, model, rounds, alone_us);
    result["per_second"][model] = compared(*here, *far, model, rounds, per_second);
  }
  std::vector<double> frames, data;
  for (int i = 0; i < rounds; ++i) {
    frames.push_back(frames_per_second(0));
    data.push_back(frames_per_second(kInput) * kInput);
  }
  result["messages_per_second"] = median(frames);
  result["bytes_per_second"] = median(data);
  const HostStatistics host = hosts->statistics().hosts.at(0);
  result["control_delay_us"] = host.control_delay.micros();
  result["data_delay_ns_per_byte"] = host.nanos_per_byte;
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  std::cout << result.dump(2) << std::endl;
  _exit(0);
}
