#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/document.h"
#include "base/status.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/scheduler_load.h"

namespace fermata::cli {
namespace {

constexpr const char* kBenchExamples = R"(
Examples:
  fermata bench scheduler                          the highest sustained rate
  fermata bench scheduler --models 100 --threads 2
  fermata bench scheduler --rate 2000000 --seconds 5 > result.json
  fermata bench scheduler --rate 1000000 --virtual-turn-us 5

Sustained: all requests taken in, median lag below 50 us, at most 1 % late or
dropped. Lag: from a request's scheduled arrival until the scheduler has taken
it in. With one thread, load, models and rank share it; with more, the rank has
a thread besides.
)";

struct BenchOptions {
  SchedulerLoad load;
  double rate_rps = 0;  // 0: search
  double seconds = 2, slo_ms = 25, alpha_ms = 1.053, beta_ms = 5.072, virtual_turn_us = 0;
};

Json to_json(const SchedulerLoad& load, const SchedulerLoadResult& result) {
  Json out;
  out["policy"] = load.policy;
  out["models"] = load.models;
  out["workers"] = load.workers_used();
  out["threads"] = load.threads;
  out["rate_rps"] = load.rate_rps;
  out["handled_rps"] = result.handled_rps();
  out["sustained"] = sustained(load, result);
  out["lag_p50_us"] = result.lag.quantile(0.5).micros();
  out["lag_p99_us"] = result.lag.quantile(0.99).micros();
  out["bad_rate"] = result.bad_rate();
  out["mean_batch"] = result.mean_batch();
  out["requests"] = result.offered;
  out["requests_per_turn"] = static_cast<double>(result.offered) /
                             static_cast<double>(std::max<uint64_t>(1, result.turns));
  const auto per_request = [&](double amount) {
    return amount / static_cast<double>(std::max<uint64_t>(1, result.offered));
  };
  out["instructions_per_request"] = nullptr;
  if (result.instructions) {
    out["instructions_per_request"] = per_request(static_cast<double>(*result.instructions));
  }
  out["cpu_ns_per_request"] = per_request(static_cast<double>(result.cpu.nanos()));
  return out;
}

void print_table(const Json& out) {
  const auto row = [&](const char* name, const std::string& value) {
    std::cerr << fmt::format("{:<28}{:>16}\n", name, value);
  };
  const auto number = [&](const char* field) { return out[field].get<double>(); };
  row("requests/s", fmt::format("{:.0f}", number("handled_rps")));
  row("sustained", out["sustained"].get<bool>() ? "yes" : "no");
  row("median lag, us", fmt::format("{:.1f}", number("lag_p50_us")));
  row("p99 lag, us", fmt::format("{:.1f}", number("lag_p99_us")));
  row("late or dropped, %", fmt::format("{:.3f}", 100 * number("bad_rate")));
  row("mean batch", fmt::format("{:.1f}", number("mean_batch")));
  row("CPU time per request, ns", fmt::format("{:.0f}", number("cpu_ns_per_request")));
  const Json& instructions = out["instructions_per_request"];
  row("instructions per request", instructions.is_null()
                                      ? "no counter here"
                                      : fmt::format("{:.0f}", instructions.get<double>()));
}

Exit run_scheduler_bench(BenchOptions options) {
  SchedulerLoad& load = options.load;
  load.duration = Duration::from_seconds(options.seconds);
  load.slo = Duration::from_millis(options.slo_ms);
  load.latency = LinearLatency{options.alpha_ms, options.beta_ms};
  load.virtual_turn = Duration::from_seconds(options.virtual_turn_us * 1e-6);
  load.rate_rps = options.rate_rps;
  Progress progress("bench scheduler");
  absl::StatusOr<SchedulerLoadResult> result;
  if (options.rate_rps > 0) {
    result = run_scheduler_load(load);
  } else {
    auto found = find_sustained_rate(load, [&, runs = 0](const SchedulerLoad& next) mutable {
      progress.update(runs++ / 12.0, fmt::format("{:.0f} requests/s", next.rate_rps));
    });
    if (found.ok()) load.rate_rps = found->rate_rps;
    result = found.ok() ? absl::StatusOr<SchedulerLoadResult>(std::move(found->result))
                        : absl::StatusOr<SchedulerLoadResult>(found.status());
  }
  progress.finish();
  if (!result.ok()) {
    std::cerr << "fermata bench scheduler: " << message(result.status()) << "\n";
    return kBadInput;
  }
  const Json out = to_json(load, *result);
  print_table(out);
  std::cout << write_json(out);
  return kDone;
}

void add_scheduler_bench(CLI::App& bench, int& exit_code) {
  CLI::App* command = bench.add_subcommand(
      "scheduler", "The scheduler alone: requests and workers are objects in this process.");
  auto options = std::make_shared<BenchOptions>();
  SchedulerLoad& load = options->load;
  command->add_option("--policy", load.policy, "Scheduling policy")->capture_default_str();
  command->add_option("--models", load.models, "Models, equally popular")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  command->add_option("--workers", load.workers, "Workers; 0: one per 500 requests/s")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  command->add_option("--threads", load.threads, "Model threads")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command->add_option("--rate", options->rate_rps, "Requests/s (default: find the highest rate)")
      ->check(CLI::Range(1.0, 1e9));
  command->add_option("--seconds", options->seconds, "Length of a run")
      ->check(CLI::Range(0.01, 3600.0))
      ->capture_default_str();
  command->add_option("--slo-ms", options->slo_ms, "Deadline of every request")
      ->check(CLI::Range(0.1, 1e6))
      ->capture_default_str();
  command->add_option("--alpha", options->alpha_ms, "Latency of one more item, ms")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command->add_option("--beta", options->beta_ms, "Fixed latency of a batch, ms")
      ->check(CLI::Range(0.001, 1e6))
      ->capture_default_str();
  command->add_option("--seed", load.seed, "Seed of the arrivals")->capture_default_str();
  command
      ->add_option("--virtual-turn-us", options->virtual_turn_us,
                   "Virtual clock step, microseconds; everything on one thread")
      ->check(CLI::Range(0.0, 1e4));
  command->footer(kBenchExamples);
  command->callback([options, &exit_code] { exit_code = run_scheduler_bench(*options); });
}

}  // namespace

void add_bench(CLI::App& app, int& exit_code) {
  CLI::App* bench = app.add_subcommand("bench", "Measure parts of Fermata on this machine.");
  bench->require_subcommand(1);
  add_scheduler_bench(*bench, exit_code);
}

}  // namespace fermata::cli
