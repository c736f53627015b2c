// What a decision of a policy costs: runs a scenario as `fermata simulate` does and takes the
// processor time of every call of the scheduler that binds a batch. Prints one JSON object;
// bench/decisions.py draws it.
//   bench_decisions < SCENARIO
#include <algorithm>
#include <ctime>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/document.h"
#include "cli/scenario.h"
#include "simulate/driver.h"

namespace {

using namespace fermata;
using namespace fermata::policy;

double processor_micros() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return 1e6 * static_cast<double>(t.tv_sec) + 1e-3 * static_cast<double>(t.tv_nsec);
}

// Hands on all that it is told.
class Timed final : public Scheduler {
 public:
  Timed(std::unique_ptr<Scheduler> inner, std::vector<double>& micros)
      : inner_(std::move(inner)), micros_(micros) {}

  KeyId add_key(KeyInfo info) override { return inner_->add_key(std::move(info)); }
  void remove_key(KeyId key) override { inner_->remove_key(key); }
  void update_latency(KeyId key, LatencyByType latency, Time now, Decisions& out) override {
    inner_->update_latency(key, std::move(latency), now, out);
  }
  void set_delay_bound(DelayBound bound) override { inner_->set_delay_bound(bound); }
  bool set_rules(const Rules& rules, Time now, Decisions& out) override {
    return inner_->set_rules(rules, now, out);
  }
  WorkerId add_worker(Time now, Decisions& out, uint32_t type, int64_t memory) override {
    return inner_->add_worker(now, out, type, memory);
  }
  bool serves(Kind kind) const override { return inner_->serves(kind); }
  KeyId add_service(const ServiceInfo& info) override { return inner_->add_service(info); }
  void learned(const Task& task, const Estimate& estimate, Time now, Decisions& out) override {
    take(out, [&] { inner_->learned(task, estimate, now, out); });
  }
  void nominate(const Task& task, Time now, Decisions& out) override {
    take(out, [&] { inner_->nominate(task, now, out); });
  }
  bool withdraw(const Task& task, Time now, Decisions& out) override {
    return inner_->withdraw(task, now, out);
  }
  void planned(const Plan& plan, Time now, Decisions& out) override {
    take(out, [&] { inner_->planned(plan, now, out); });
  }
  void ended(const BatchEnd& batch, Time now, Decisions& out) override {
    take(out, [&] { inner_->ended(batch, now, out); });
  }
  void tick(Time now, Decisions& out) override {
    take(out, [&] { inner_->tick(now, out); });
  }
  Time next_wake() const override { return inner_->next_wake(); }
  uint64_t waiting_items(KeyId key) const override { return inner_->waiting_items(key); }

 private:
  // By batch, where a call binds several.
  template <class Call>
  void take(Decisions& out, Call call) {
    const size_t before = out.bound.size();
    const double start = processor_micros();
    call();
    const double took = processor_micros() - start;
    if (const size_t bound = out.bound.size() - before; bound > 0) {
      micros_.insert(micros_.end(), bound, took / static_cast<double>(bound));
    }
  }

  const std::unique_ptr<Scheduler> inner_;
  std::vector<double>& micros_;
};

}  // namespace

int main() {
  int exit_code = 0;
  const auto scenario = cli::load_scenario("-", {}, exit_code);
  if (!scenario) return exit_code;
  std::vector<double> micros;
  const auto result = simulate::run(*scenario, {.listener = [&micros](auto inner) {
    return std::make_unique<Timed>(std::move(inner), micros);
  }});
  if (!result.ok() || micros.empty()) return 1;
  std::sort(micros.begin(), micros.end());
  std::cout << write_json({{"batches", micros.size()},
                           {"p50_us", micros[micros.size() / 2]},
                           {"p99_us", micros[micros.size() * 99 / 100]}});
}
