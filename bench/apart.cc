// What models in processes of their own cost beside models on threads of the server, without any
// protocol. Rounds of both take turns in one process. Prints one JSON object.
//   bench_apart REPOSITORY FERMATA ROUNDS [quick]      (bench/apart.py writes the repository;
//                                                       quick: nothing dies)
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <future>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <semaphore>
#include <thread>

#include "base/clock.h"
#include "base/document.h"
#include "base/histogram.h"
#include "engine/engine.h"
#include "engine/observer.h"

namespace {

using namespace fermata;
using namespace fermata::engine;

constexpr int kAlone = 2000, kInFlight = 32;
constexpr Duration kMany = Duration::millis(400);

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

std::unique_ptr<Engine> engine_of(const char* repository, const char* fermata, Isolation isolation,
                                  bool standby = false) {
  EngineOptions options;
  options.repository = repository;
  options.probe_program = fermata;
  options.workers.isolation = isolation;
  options.workers.standby = standby;
  auto made = make_engine(std::move(options));
  if (!made.ok()) {
    std::cerr << made.status() << "\n";
    std::exit(1);
  }
  return *std::move(made);
}

Tensor input_of(const Engine& engine, const std::string& model) {
  const auto variant = engine.catalog()->find(model, "");
  if (!variant.ok()) {
    std::cerr << variant.status() << "\n";
    std::exit(1);
  }
  const TensorSpec& spec = (*variant)->signature.inputs[0];
  Shape item = spec.dims;
  std::replace(item.begin(), item.end(), int64_t{-1}, int64_t{1});
  return zeros(spec, std::move(item), (*variant)->signature.batches ? 1 : 0);
}

double alone_us(Engine& engine, const std::string& model, const Tensor& input) {
  Histogram whole;
  for (int i = 0; i < kAlone; ++i) {
    std::promise<void> done;
    const Time start = engine.now();
    engine.submit({.service = model, .inputs = {input}, .arrival = start},
                  [&](const ReplyPart&) { done.set_value(); });
    done.get_future().wait();
    whole.record(engine.now() - start);
  }
  return whole.quantile(0.5).micros();
}

// Of a request's time in its batch, on average: putting it together, running it, taking it apart.
Json stages_us(const Engine& engine, const std::string& model) {
  for (const ServiceStatistics& row : engine.snapshot().services) {
    if (row.service != model || row.compute_infer.count == 0) continue;
    const auto mean = [](const DurationCount& all) {
      return all.total.micros() / static_cast<double>(all.count);
    };
    return {{"input", mean(row.compute_input)},
            {"run", mean(row.compute_infer)},
            {"output", mean(row.compute_output)}};
  }
  return {};
}

double per_second(Engine& engine, const std::string& model, const Tensor& input) {
  std::counting_semaphore<> room(kInFlight);
  std::atomic<int> failed{0};
  const Time start = engine.now();
  int asked = 0;
  for (; engine.now() - start < kMany; ++asked) {
    room.acquire();
    engine.submit({.service = model, .inputs = {input}, .arrival = engine.now()},
                  [&](const ReplyPart& part) {
                    if (!part.status.ok()) ++failed;
                    room.release();
                  });
  }
  for (int i = 0; i < kInFlight; ++i) room.acquire();
  if (failed > 0) std::exit(1);
  return asked / (engine.now() - start).seconds();
}

// Items in a batch, on average.
double batch_items(const Engine& engine, const std::string& model) {
  for (const ServiceStatistics& row : engine.snapshot().services) {
    if (row.service != model || row.execution_count == 0) continue;
    return static_cast<double>(row.inference_count) / static_cast<double>(row.execution_count);
  }
  return 0;
}

Json compare(const std::string& model, int rounds, Engine& thread, Engine& process,
             double (*measure)(Engine&, const std::string&, const Tensor&)) {
  const Tensor input = input_of(thread, model);
  std::vector<double> threads, processes, ratios, differences;
  for (int i = 0; i < rounds; ++i) {
    // Whoever is first differs from round to round.
    double a = 0, b = 0;
    if (i % 2 == 0) a = measure(thread, model, input);
    b = measure(process, model, input);
    if (i % 2 == 1) a = measure(thread, model, input);
    threads.push_back(a);
    processes.push_back(b);
    ratios.push_back(b / a);
    differences.push_back(b - a);
  }
  return {{"thread", median(threads)},
          {"process", median(processes)},
          {"ratio", median(ratios)},
          {"difference", median(differences)}};
}

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
  auto engine = *make_engine(std::move(options));
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
      while (bindings->count == seen) std::this_thread::yield();
      all.push_back((bindings->last() - start).millis());
    }
  }
  if (all.empty()) std::exit(1);
  std::sort(all.begin(), all.end());
  return {{"deaths", all.size()}, {"p50_ms", median(all)}, {"most_ms", all.back()}};
}

// One model's requests at a fixed rate, each with a deadline, and how they ended.
class Stream {
 public:
  Stream(Engine& engine, std::string model, Duration slo)
      : engine_(engine), model_(std::move(model)), slo_(slo), input_(input_of(engine, model_)) {}

  void ask(Time due) { ask(due, input_, slo_); }
  void ask(Time due, const Tensor& input, Duration slo) {
    auto ends = std::make_shared<std::atomic<int>>(0);
    ++asked_;
    engine_.submit({.service = model_, .inputs = {input}, .arrival = due, .timeout = slo},
                   [this, ends](const ReplyPart& part) {
                     if (ends->fetch_add(1) > 0) ++twice_;
                     if (part.why.outcome == Outcome::kFailed) last_failure(part.status);
                     ++ends_[static_cast<size_t>(part.why.outcome)];
                     ++ended_;
                   });
  }
  Json end() {
    while (ended_ < asked_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    Json row = {{"asked", asked_.load()}, {"twice", twice_.load()}};
    for (size_t o = 0; o < kOutcomes; ++o) {
      if (ends_[o] > 0) row[std::string(name(static_cast<Outcome>(o)))] = ends_[o].load();
    }
    row["on_time_share"] =
        asked_ == 0 ? 1.0 : ends_[static_cast<size_t>(Outcome::kOnTime)] / double(asked_);
    return row;
  }

 private:
  static void last_failure(const absl::Status& status) { std::cerr << status << "\n"; }

  Engine& engine_;
  const std::string model_;
  const Duration slo_;
  const Tensor input_;
  std::atomic<int> asked_{0}, ended_{0}, twice_{0};
  std::array<std::atomic<int>, kOutcomes> ends_{};
};

int64_t process_of(const Engine& engine, const std::string& model) {
  for (const ProcessStatistics& process : engine.snapshot().processes) {
    if (process.model == model && process.there) return process.pid;
  }
  return 0;
}

// A model at half of what the workers can do together with one beside it; its processes are killed
// again and again, every sixth by a request that never ends. A request has 500 ms: more than its
// run, a restart and 20 ms.
Json under_load(const char* repository, const char* fermata, int deaths) {
  EngineOptions options;
  options.repository = repository;
  options.probe_program = fermata;
  options.workers.isolation = Isolation::kProcess;
  options.workers.types[0].count = 2;
  options.workers.run_limit = Duration::millis(100);
  const auto engine = *make_engine(std::move(options));
  const double capacity = per_second(*engine, "victim", input_of(*engine, "victim"));
  const Duration slo = Duration::millis(500), tick = Duration::millis(2);
  // Open loop, one at a time: as many as a quarter of the capacity each, in ticks.
  const int each = std::max(1, static_cast<int>(capacity / 4 * tick.seconds()));
  Tensor endless = input_of(*engine, "endless1");
  const auto one = std::make_shared<float>(1.0F);
  endless.data = {{reinterpret_cast<const std::byte*>(one.get()), sizeof(float)}, one};
  const auto drive = [&](int kills, int periods) {
    Stream victim(*engine, "victim", slo), canary(*engine, "canary", slo);
    Stream forever(*engine, "endless1", Duration::seconds(30));
    constexpr std::array kSignals = {SIGKILL, SIGSEGV, SIGFPE, SIGABRT, SIGBUS};
    Time due = engine->now(), next = due + Duration::millis(100);
    int64_t last = 0;
    const int ticks = periods * 350;  // one death in 700 ms, of which a restart takes a fifth
    for (int i = 0, killed = 0; i < ticks; ++i, due = due + tick) {
      while (engine->now() < due) std::this_thread::sleep_for(std::chrono::microseconds(200));
      for (int k = 0; k < each; ++k) {
        victim.ask(due);
        canary.ask(due);
      }
      if (killed == kills || engine->now() < next) continue;
      if (killed % 6 == 5) {
        forever.ask(due, endless, Duration::seconds(30));
      } else {
        const int64_t pid = process_of(*engine, "victim");
        if (pid == 0 || pid == last) continue;
        last = pid;
        ::kill(static_cast<pid_t>(pid), kSignals[killed % kSignals.size()]);
      }
      ++killed;
      next = next + Duration::millis(690);
    }
    return Json{{"victim", victim.end()}, {"canary", canary.end()}, {"endless", forever.end()}};
  };
  Json result = {{"deaths", deaths},
                 {"capacity", capacity},
                 {"rate_each", each / tick.seconds()},
                 {"without", drive(0, deaths / 4)},
                 {"with", drive(deaths, deaths)}};
  for (const ProcessStatistics& process : engine->snapshot().processes) {
    if (!process.deaths_by.empty()) result["signals"][process.model] = process.deaths_by;
  }
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::cerr << "usage: bench_apart REPOSITORY FERMATA ROUNDS [quick]\n";
    return 2;
  }
  spdlog::set_default_logger(spdlog::stderr_logger_st("bench"));
  const int rounds = std::atoi(argv[3]);
  const auto thread = engine_of(argv[1], argv[2], Isolation::kThread);
  const auto process = engine_of(argv[1], argv[2], Isolation::kProcess);
  Json result;
  for (const char* model : {"kb1", "kb150"}) {
    result["p50_us"][model] = compare(model, rounds, *thread, *process, alone_us);
    result["mean_us"][model] = {{"thread", stages_us(*thread, model)},
                                {"process", stages_us(*process, model)}};
  }
  for (const char* model : {"kb1", "us100", "ms1"}) {
    result["per_second"][model] = compare(model, rounds, *thread, *process, per_second);
    result["mean_us"][model] = {{"thread", stages_us(*thread, model)},
                                {"process", stages_us(*process, model)}};
    result["batch_items"][model] = {{"thread", batch_items(*thread, model)},
                                    {"process", batch_items(*process, model)}};
  }
  if (argc > 4) {
    std::cout << write_json(result);
    return 0;
  }
  result["under_load"] = under_load(argv[1], argv[2], rounds < 5 ? 12 : 200);
  result["again"] = renominations(argv[1], argv[2], 20);
  result["back"]["kb1"] = deaths(*process, "kb1", 20);
  result["back"]["mb100"] = deaths(*process, "mb100", 5);
  const auto with_standby = engine_of(argv[1], argv[2], Isolation::kProcess, true);
  result["back_with_standby"]["kb1"] = deaths(*with_standby, "kb1", 20, true);
  result["back_with_standby"]["mb100"] = deaths(*with_standby, "mb100", 5, true);
  std::cout << write_json(result);
  return 0;
}
