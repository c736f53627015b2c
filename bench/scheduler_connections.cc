// What one scheduler carries over real connections: frontends that ask and workers that answer at
// once, in a process of their own, over loopback and without TLS. Prints one JSON object.
//   bench_scheduler_connections REPOSITORY MODEL RATE SECONDS WORKERS
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/document.h"
#include "cluster/frontend/scheduler_link.h"
#include "cluster/scheduler/hosts.h"
#include "cluster/wire/messages.h"
#include "cluster/wire/tcp_channel.h"
#include "engine/engine.h"

namespace {

using namespace fermata;
using namespace fermata::cluster;

constexpr Duration kSilence = Duration::seconds(5), kConnects = Duration::seconds(10);
constexpr Duration kTurn = Duration::millis(1);  // from one burst of requests to the next
constexpr size_t kFrontends = 2;

struct Wanted {
  std::string address, model;
  double rate = 0;
  Duration time;
  int workers = 0;
};

// A worker of one slot that answers whatever it is asked at once, as if it had brought the outputs.
class QuickWorker {
 public:
  QuickWorker(const std::string& address, int number) {
    const auto control = connect(address);
    Message greeting;
    Hello& hello = *greeting.mutable_hello();
    hello.set_version(kVersion);
    hello.set_host("quick" + std::to_string(number));
    hello.set_type("far");
    hello.set_slots(1);
    (void)control->send(greeting);
    const auto welcome = control->receive();
    const uint64_t session = welcome.ok() ? welcome->message.welcome().session() : 0;
    for (const bool loads : {false, true}) {
      const auto channel = connect(address);
      Message text;
      text.mutable_attach()->set_session(session);
      text.mutable_attach()->set_loads(loads);
      (void)channel->send(text);
      serve(channel);
    }
    serve(control);
  }

 private:
  static std::shared_ptr<Channel> connect(const std::string& address) {
    return *Tcp::connect(address, kConnects);
  }
  static Message answer_to(const Message& asked) {
    Message answer;
    if (asked.has_beat()) {
      answer.mutable_echo()->set_number(asked.beat().number());
      answer.mutable_echo()->set_clock_nanos(monotonic_now().nanos());
    } else if (asked.has_batch()) {
      engine::BatchResult result;
      for (int i = 0; i < asked.batch().parts_size(); ++i) {
        result.parts.emplace_back(std::vector<Tensor>());
      }
      return write_ended(asked.batch().number(), Duration(), result).message;
    } else {
      answer.mutable_loaded();
    }
    return answer;
  }
  static void serve(std::shared_ptr<Channel> channel) {
    std::thread([channel = std::move(channel)] {
      for (auto frame = channel->receive(); frame.ok(); frame = channel->receive()) {
        if (!channel->send(answer_to(frame->message)).ok()) return;
      }
    }).detach();
  }
};

// What a frontend tells the scheduler, without clients.
class Asking {
 public:
  Asking(const std::string& address, size_t number)
      : link_({.schedulers = {address},
               .name = "asking" + std::to_string(number),
               .address = "127.0.0.1:1",
               .silence = kSilence},
              {.lost = [](uint64_t) {}, .told = [this](const Told& told) { count(told); }}) {
    link_.start();
    while (link_.session() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  void run(const std::string& model, double rate, Duration time) {
    const Time begin = monotonic_now();
    uint64_t sent = 0;
    for (Time now = begin; now - begin < time; now = monotonic_now()) {
      const auto due = static_cast<uint64_t>(rate * (now - begin).seconds());
      for (; sent < due; ++sent) ask(model);
      std::this_thread::sleep_for(std::chrono::nanoseconds(kTurn.nanos()));
    }
    asked_ = sent;
  }
  uint64_t asked() const { return asked_; }
  uint64_t on_time() const { return on_time_; }
  uint64_t others() const { return others_; }

 private:
  void ask(const std::string& model) {
    link_.say(link_.session(), [&](Asked& asked) {
      Submit& submit = *asked.add_submits();
      submit.set_key(++key_);
      submit.set_service(model);
      submit.set_items(1);
      submit.set_arrival_nanos(monotonic_now().nanos());
      submit.set_timeout_nanos(static_cast<uint64_t>(Duration::millis(200).nanos()));
      submit.set_cutoff_nanos(std::numeric_limits<int64_t>::max());
      return submit.ByteSizeLong();
    });
  }
  void count(const Told& told) {
    for (const Reply& each : told.replies()) ++(each.code() == 0 ? on_time_ : others_);
  }

  std::atomic<uint64_t> key_{0}, on_time_{0}, others_{0};
  uint64_t asked_ = 0;
  SchedulerLink link_;
};

Json load(const Wanted& what) {
  std::vector<std::unique_ptr<QuickWorker>> workers;
  for (int i = 0; i < what.workers; ++i) {
    workers.push_back(std::make_unique<QuickWorker>(what.address, i));
  }
  std::vector<std::unique_ptr<Asking>> frontends;
  for (size_t i = 0; i < kFrontends; ++i) {
    frontends.push_back(std::make_unique<Asking>(what.address, i));
  }
  std::vector<std::thread> threads;
  for (const auto& each : frontends) {
    threads.emplace_back([&] { each->run(what.model, what.rate / kFrontends, what.time); });
  }
  for (std::thread& thread : threads) thread.join();
  uint64_t asked = 0, on_time = 0, others = 0;
  for (const auto& each : frontends) {
    asked += each->asked();
    on_time += each->on_time();
    others += each->others();
  }
  return {{"asked_per_second", static_cast<double>(asked) / what.time.seconds()},
          {"answered_per_second", static_cast<double>(on_time) / what.time.seconds()},
          {"others", others}};
}

double processor_seconds(const rusage& used) {
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

}  // namespace

int main(int argc, char** argv) {
  spdlog::set_default_logger(spdlog::stderr_logger_st("bench"));
  spdlog::set_level(spdlog::level::warn);
  std::signal(SIGPIPE, SIG_IGN);
  if (argc != 6) return 2;
  const int workers = std::atoi(argv[5]);
  int port_pipe[2], said_pipe[2];
  if (::pipe(port_pipe) != 0 || ::pipe(said_pipe) != 0) return 1;
  const pid_t child = ::fork();
  if (child == 0) {
    uint16_t port = 0;
    if (::read(port_pipe[0], &port, sizeof(port)) != sizeof(port)) return 1;
    const Json said = load({.address = "127.0.0.1:" + std::to_string(port),
                            .model = argv[2],
                            .rate = std::atof(argv[3]),
                            .time = Duration::from_seconds(std::atof(argv[4])),
                            .workers = workers});
    const std::string text = said.dump();
    if (::write(said_pipe[1], text.data(), text.size()) < 0) return 1;
    ::_exit(0);
  }
  ::close(said_pipe[1]);
  const auto hosts =
      std::make_shared<Hosts>(cluster::Options{.host = "127.0.0.1", .silence = kSilence});
  engine::EngineOptions options;
  options.repository = argv[1];
  options.inputs_elsewhere = true;
  options.workers.executor = engine::ExecutorKind::kEmulated;
  options.workers.isolation = engine::Isolation::kThread;
  options.workers.types = {
      engine::WorkerType{.name = "far", .count = static_cast<uint32_t>(workers), .remote = true}};
  options.workers.remote = hosts;
  const auto engine = engine::make_engine(std::move(options));
  if (!engine.ok()) return 1;
  hosts->serve_frontends(**engine);
  if (!hosts->listen().ok()) return 1;
  const uint16_t port = hosts->port();
  if (::write(port_pipe[1], &port, sizeof(port)) < 0) return 1;
  rusage before{}, after{};
  ::getrusage(RUSAGE_SELF, &before);
  const Time begin = monotonic_now();
  std::string text;
  char some[4096];
  for (ssize_t got = 0; (got = ::read(said_pipe[0], some, sizeof(some))) > 0;) {
    text.append(some, static_cast<size_t>(got));
  }
  ::waitpid(child, nullptr, 0);
  ::getrusage(RUSAGE_SELF, &after);
  Json result = Json::parse(text, nullptr, false);
  if (result.is_discarded()) return 1;
  const double used = processor_seconds(after) - processor_seconds(before);
  result["scheduler_processors"] = used / (monotonic_now() - begin).seconds();
  std::cout << result.dump(2) << std::endl;
  ::_exit(0);
}
