// What the death of a model's process costs it and others, without any protocol. Prints one JSON
// object.
//   bench_apart_deaths REPOSITORY FERMATA DEATHS [short]      (bench/apart.py writes the
//   repository;
//                                                              short: deaths under load only)
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <csignal>
#include <deque>
#include <future>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/clock.h"
#include "engine/observer.h"
#include "engines.h"

namespace {

using namespace fermata;
using namespace fermata::engine;

// How long a model is away after its process was killed, one request at a time; ms.
Json deaths(Engine& engine, const std::string& model, int count, bool standby = false) {
  const Tensor input = input_of(engine, model);
  std::vector<double> away;
  int64_t last = 0;
  for (int i = 0; i < count; ++i) {
    int64_t pid = last;
    while (pid == last) {
      for (const ProcessStatistics& process : engine.snapshot().processes) {
        if (process.model != model || !process.there) continue;
        if (!standby || process.standby) pid = process.pid;
      }
    }
    last = pid;
    const Time start = engine.now();
    ::kill(static_cast<pid_t>(pid), SIGKILL);
    std::promise<absl::Status> done;
    engine.submit({.service = model, .inputs = {input}, .arrival = start},
                  [&](const ReplyPart& part) { done.set_value(part.status); });
    if (!done.get_future().get().ok()) std::exit(1);
    away.push_back((engine.now() - start).millis());
  }
  std::sort(away.begin(), away.end());
  return {{"deaths", count}, {"p50_ms", median(away)}, {"most_ms", away.back()}};
}

// Sees when the scheduler binds a batch of the model.
class Bindings : public Observer {
 public:
  explicit Bindings(std::string model) : model_(std::move(model)) {}
  uint32_t service(std::string_view) override { return 0; }
  void model(VariantId id, std::string_view name) override {
    if (name == model_) id_ = id.value();
  }
  void came(const Came&) override {}
  void bound(const Bound& event) override {
    if (event.model.value() == id_) ++count, last_ = event.at.nanos();
  }
  void ended(const BatchEnded&) override {}
  void ended(const Ended&) override {}
  void ran(const OperatorRan&) override {}
  void loaded(const Loaded&) override {}
  Time last() const { return Time::from_nanos(last_); }
  std::atomic<int> count{0};

 private:
  const std::string model_;
  std::atomic<uint32_t> id_{~0U};
  std::atomic<int64_t> last_{0};
};

// From a kill in the middle of a run to the moment at which its request is bound again; ms.
Json renominations(const char* repository, const char* fermata, int count) {
  auto bindings = std::make_shared<Bindings>("endless300");
  EngineOptions options;
  options.repository = repository;
  options.probe_program = fermata;
  options.workers.isolation = Isolation::kProcess;
  options.observer = bindings;
  auto engine = engine_of(std::move(options));
  Tensor input = input_of(*engine, "endless300");
  const auto one = std::make_shared<float>(1.0F);
  input.data = {{reinterpret_cast<const std::byte*>(one.get()), sizeof(float)}, one};
  std::vector<double> all;
  for (int i = 0; i < count; ++i) {
    std::promise<void> good;  // a model that only dies is put into quarantine
    engine->submit({.service = "endless300",
                    .inputs = {input_of(*engine, "endless300")},
                    .arrival = engine->now()},
                   [&](const ReplyPart&) { good.set_value(); });
    good.get_future().wait();
    const int before = bindings->count;
    std::promise<void> done;
    engine->submit({.service = "endless300", .inputs = {input}, .arrival = engine->now()},
                   [&](const ReplyPart&) { done.set_value(); });
    std::future<void> reply = done.get_future();
    int seen = before, deaths = 0;
    int64_t last = 0;
    while (reply.wait_for(std::chrono::milliseconds(20)) != std::future_status::ready) {
      int64_t pid = last;
      for (const ProcessStatistics& process : engine->snapshot().processes) {
        if (process.model == "endless300" && process.there) pid = process.pid;
      }
      if (pid == last || bindings->count == seen) continue;
      std::this_thread::sleep_for(std::chrono::milliseconds(30));  // it runs
      seen = bindings->count;
      last = pid;
      const Time start = engine->now();
      ::kill(static_cast<pid_t>(pid), SIGKILL);
      if (deaths++ > 0) continue;  // after the second it fails
      // No busy loop: it would take one of the processors that this needs.
      while (bindings->count == seen) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      all.push_back((bindings->last() - start).millis());
    }
  }
  if (all.empty()) std::exit(1);
  std::sort(all.begin(), all.end());
  return {{"deaths", all.size()}, {"p50_ms", median(all)}, {"most_ms", all.back()}};
}

// One model's requests, each with a deadline, and how they ended.
class Stream {
 public:
  struct One {
    Time arrival, deadline;
    std::atomic<int> ends{0};
    Outcome outcome = Outcome::kOnTime;
    absl::Status status;
    bool lost() const { return outcome != Outcome::kOnTime; }
  };
  Stream(Engine& engine, std::string model, std::vector<Duration> slos)
      : engine_(engine), model_(std::move(model)), slos_(std::move(slos)) {
    input_ = input_of(engine, model_);
  }

  // In turn with each of its budgets.
  void ask(Time due) { ask(due, input_); }
  void ask(Time due, const Tensor& input) {
    const Duration slo = slos_[all_.size() % slos_.size()];
    One& one = all_.emplace_back();
    one.arrival = due;
    one.deadline = due + slo;
    engine_.submit({.service = model_, .inputs = {input}, .arrival = due, .timeout = slo},
                   [this, &one](const ReplyPart& part) {
                     if (one.ends.fetch_add(1) > 0) return;
                     one.outcome = part.why.outcome;
                     one.status = part.status;
                     ++ended_;
                   });
  }
  const std::deque<One>& end() {
    while (ended_ < all_.size()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return all_;
  }
  Json ends() {
    Json row = {{"asked", end().size()}};
    uint64_t twice = 0, on_time = 0;
    for (const One& one : all_) {
      if (one.ends > 1) ++twice;
      if (!one.lost()) ++on_time;
      const std::string how(name(one.outcome));
      row[how] = row.value(how, 0) + 1;
    }
    row["twice"] = twice;
    row["on_time_share"] =
        all_.empty() ? 1.0 : static_cast<double>(on_time) / static_cast<double>(all_.size());
    return row;
  }

 private:
  Engine& engine_;
  const std::string model_;
  const std::vector<Duration> slos_;
  Tensor input_;
  std::deque<One> all_;
  std::atomic<size_t> ended_{0};
};

// From a death of a process to the moment at which the next one is there.
struct Away {
  Time from, until;
};

// Of the requests that were lost: how many could not have been helped, since less was left of their
// time when their model came back than a run and 20 ms; how many could; and how many were lost with
// no death in their time at all.
Json judged(const std::deque<Stream::One>& all, const std::vector<Away>& deaths, Duration run) {
  uint64_t short_of_time = 0, in_spite = 0, beside = 0;
  std::map<std::string, int> says;
  Duration most;
  for (const Stream::One& one : all) {
    if (!one.lost()) continue;
    const Away* last = nullptr;
    for (const Away& away : deaths) {
      if (away.from < one.deadline && one.arrival < away.until) last = &away;
    }
    if (last != nullptr && one.deadline < last->until + run + Duration::millis(20)) {
      ++short_of_time;
      continue;
    }
    ++(last == nullptr ? beside : in_spite);
    if (last != nullptr) most = std::max(most, one.deadline - last->until);
    if (says.size() < 12) ++says[std::string(one.status.message()).substr(0, 160)];
  }
  return {{"without_time", short_of_time},
          {"with_time", in_spite},
          {"no_death", beside},
          {"most_time_left_ms", most.millis()},
          {"says", says}};
}

int64_t process_of(const Engine& engine, const std::string& model) {
  for (const ProcessStatistics& process : engine.snapshot().processes) {
    if (process.model == model && process.there) return process.pid;
  }
  return 0;
}

double mean_run_ms(const Engine& engine, const std::string& model) {
  for (const ServiceStatistics& row : engine.snapshot().services) {
    if (row.service != model || row.compute_infer.count == 0) continue;
    const Duration all =
        row.compute_input.total + row.compute_infer.total + row.compute_output.total;
    return all.millis() / static_cast<double>(row.compute_infer.count);
  }
  return 0;
}

Tensor filled(const Engine& engine, const std::string& model, float value) {
  Tensor input = input_of(engine, model);
  const auto one = std::make_shared<float>(value);
  input.data = {{reinterpret_cast<const std::byte*>(one.get()), sizeof(float)}, one};
  return input;
}

// A model at half of what the workers can do together with one beside it; its processes are killed
// again and again; of six such events one is a request that never ends, and one that asks for more
// memory than there is. Of three requests one has 500 ms, one 250 and one 100.
Json under_load(const char* repository, const char* fermata, int deaths) {
  EngineOptions options;
  options.repository = repository;
  options.probe_program = fermata;
  options.workers.isolation = Isolation::kProcess;
  options.workers.types[0].count = 2;
  options.workers.run_limit = Duration::millis(100);
  const auto engine = engine_of(std::move(options));
  const double capacity = per_second(*engine, "victim", input_of(*engine, "victim"));
  const Duration tick = Duration::millis(2), apart = Duration::millis(700);
  const std::vector<Duration> slos = {Duration::millis(500), Duration::millis(250),
                                      Duration::millis(100)};
  // Open loop, one at a time: as many as a quarter of the capacity each, in ticks.
  const int each = std::max(1, static_cast<int>(capacity / 4 * tick.seconds()));
  const Tensor endless = filled(*engine, "endless1", 1), greedy = filled(*engine, "greedy", 0x1p33);
  const auto drive = [&](int kills, int periods) {
    Stream victim(*engine, "victim", slos), canary(*engine, "canary", slos);
    Stream forever(*engine, "endless1", {Duration::seconds(30)});
    Stream huge(*engine, "greedy", {Duration::seconds(30)});
    constexpr std::array kSignals = {SIGKILL, SIGSEGV, SIGFPE, SIGABRT, SIGBUS};
    Time due = engine->now(), next = due + Duration::millis(100);
    std::vector<Away> away;
    int64_t killed = 0;  // the process that was, until another is there
    int done = 0;
    for (const Time last = due + apart * periods; due < last; due = due + tick) {
      while (engine->now() < due) std::this_thread::sleep_for(std::chrono::microseconds(200));
      for (int k = 0; k < each; ++k) {
        victim.ask(due);
        canary.ask(due);
      }
      if (killed != 0) {
        const int64_t pid = process_of(*engine, "victim");
        if (pid != 0 && pid != killed) away.back().until = engine->now(), killed = 0;
      }
      if (done == kills || engine->now() < next || killed != 0) continue;
      if (done % 6 == 4) {
        huge.ask(due, greedy);
      } else if (done % 6 == 5) {
        forever.ask(due, endless);
      } else {
        killed = process_of(*engine, "victim");
        if (killed == 0) continue;
        away.push_back({engine->now(), Time::infinite()});
        ::kill(static_cast<pid_t>(killed), kSignals[static_cast<size_t>(done) % kSignals.size()]);
      }
      ++done;
      next = next + apart;
    }
    std::vector<double> restarts;
    const auto& all = victim.end();
    for (const Away& one : away) restarts.push_back((one.until - one.from).millis());
    const Duration run = Duration::from_millis(mean_run_ms(*engine, "victim"));
    Json result = {{"victim", victim.ends()},   {"canary", canary.ends()},
                   {"endless", forever.ends()}, {"greedy", huge.ends()},
                   {"run_ms", run.millis()},    {"lost", judged(all, away, run)}};
    if (!restarts.empty()) {
      result["restart_ms"] = {{"p50", median(restarts)},
                              {"most", *std::max_element(restarts.begin(), restarts.end())}};
    }
    return result;
  };
  Json result = {{"deaths", deaths},
                 {"capacity", capacity},
                 {"rate_each", each / tick.seconds()},
                 {"without", drive(0, std::max(deaths / 4, 4))},
                 {"with", drive(deaths, deaths + 2)}};
  for (const ProcessStatistics& process : engine->snapshot().processes) {
    if (!process.deaths_by.empty()) result["signals"][process.model] = process.deaths_by;
  }
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::cerr << "usage: bench_apart_deaths REPOSITORY FERMATA DEATHS [short]\n";
    return 2;
  }
  spdlog::set_default_logger(spdlog::stderr_logger_st("bench"));
  Json result;
  result["under_load"] = under_load(argv[1], argv[2], std::atoi(argv[3]));
  if (argc == 4) {
    result["again"] = renominations(argv[1], argv[2], 50);
    const auto process = engine_of(argv[1], argv[2], Isolation::kProcess);
    result["back"]["kb1"] = deaths(*process, "kb1", 20);
    result["back"]["mb100"] = deaths(*process, "mb100", 5);
    const auto with_standby = engine_of(argv[1], argv[2], Isolation::kProcess, true);
    result["back_with_standby"]["kb1"] = deaths(*with_standby, "kb1", 20, true);
    result["back_with_standby"]["mb100"] = deaths(*with_standby, "mb100", 5, true);
  }
  std::cout << write_json(result);
  return 0;
}
