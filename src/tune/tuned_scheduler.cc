#include "tune/tuned_scheduler.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "tune/rule_tuner.h"

namespace fermata::tune {
namespace {

constexpr Duration kLook = Duration::seconds(1);

class TunedScheduler final : public policy::Scheduler {
 public:
  TunedScheduler(std::unique_ptr<policy::Scheduler> scheduler, TuningLog* log)
      : scheduler_(std::move(scheduler)), log_(log) {}

  KeyId add_key(policy::KeyInfo info) override {
    simulate::SimulatedModel model{
        .name = info.name, .latency = latency_of(info.latency), .slo = info.slo};
    model.max_batch = info.latency.slowest()->max_batch();
    const KeyId key = scheduler_->add_key(std::move(info));
    models_.resize(std::max(models_.size(), key.index() + 1));
    models_[key.index()] = std::move(model);
    return key;
  }
  void remove_key(KeyId key) override { scheduler_->remove_key(key); }
  void update_latency(KeyId key, LatencyByType latency, Time now, policy::Decisions& out) override {
    models_[key.index()].latency = latency_of(latency);
    scheduler_->update_latency(key, std::move(latency), now, out);
  }
  void set_delay_bound(policy::DelayBound bound) override {
    delay_ = bound;
    scheduler_->set_delay_bound(bound);
  }
  WorkerId add_worker(Time now, policy::Decisions& out, uint32_t type, int64_t memory) override {
    const WorkerId worker = scheduler_->add_worker(now, out, type, memory);
    workers_.resize(std::max<size_t>(workers_.size(), worker.index() + 1));
    workers_[worker.index()] = {type, true};
    return worker;
  }
  bool workers_may_leave() const override { return scheduler_->workers_may_leave(); }
  void planned(const policy::Plan& plan, Time now, policy::Decisions& out) override {
    if (const auto* serving = std::get_if<policy::Serving>(&plan)) {
      workers_[serving->worker.index()].serves = serving->serves;
    }
    scheduler_->planned(plan, now, out);
  }
  bool serves(policy::Kind kind) const override { return scheduler_->serves(kind); }
  KeyId add_service(const policy::ServiceInfo& info) override {
    plain_ = false;
    return scheduler_->add_service(info);
  }
  void learned(const policy::Task& task, const policy::Estimate& estimate, Time now,
               policy::Decisions& out) override {
    scheduler_->learned(task, estimate, now, out);
  }
  void nominate(const policy::Task& task, Time now, policy::Decisions& out) override {
    if (plain_) record(task, now);
    scheduler_->nominate(task, now, out);
  }
  bool withdraw(const policy::Task& task, Time now, policy::Decisions& out) override {
    return scheduler_->withdraw(task, now, out);
  }
  void ended(const policy::BatchEnd& batch, Time now, policy::Decisions& out) override {
    scheduler_->ended(batch, now, out);
  }
  void tick(Time now, policy::Decisions& out) override {
    if (look_at_ <= now) {
      look_at_ = now + kLook;
      if (tuner_.due(now)) tune(now, out);
    }
    if (scheduler_->next_wake() <= now) scheduler_->tick(now, out);
  }
  Time next_wake() const override { return std::min(look_at_, scheduler_->next_wake()); }
  uint64_t waiting_items(KeyId key) const override { return scheduler_->waiting_items(key); }
  std::vector<policy::Problem> last_problems() const override {
    return scheduler_->last_problems();
  }
  bool set_rules(const policy::Rules& rules, Time now, policy::Decisions& out) override {
    return scheduler_->set_rules(rules, now, out);
  }

 private:
  struct Came {
    Time at;
    Duration slo;
    uint32_t service = 0, items = 1;
  };
  struct Worker {
    uint32_t type = 0;
    bool serves = true;
  };

  static std::vector<LatencyModel> latency_of(const LatencyByType& latency) {
    std::vector<LatencyModel> all;
    for (const LatencyByType::Table& table : latency.tables()) {
      TableLatency own;
      for (uint32_t b = 1; b <= table->max_batch(); ++b) own.points_ms[b] = (*table)(b).millis();
      all.push_back(std::move(own));
    }
    return all;
  }

  void record(const policy::Task& task, Time now) {
    if (look_at_.is_infinite()) look_at_ = now + kLook;
    const uint32_t service = task.key.value();
    const bool limited = !task.deadline.is_infinite();
    const Duration slo = limited ? task.deadline - now : Duration::infinite();
    came_.push_back({now, slo, service, task.items});
    if (came_.size() > RuleTuner::kMostRequests) came_.pop_front();
    tuner_.came(service, now, slo);
  }

  void tune(Time now, policy::Decisions& out) {
    Duration longest;
    for (const Came& each : came_) {
      if (!each.slo.is_infinite()) longest = std::max(longest, each.slo);
    }
    if (came_.empty() || longest == Duration()) return tuner_.put_off(now + kLook);
    const Stretch stretch = tuner_.stretch(came_.front().at, longest, now);
    while (!came_.empty() && came_.front().at < stretch.from) came_.pop_front();
    const auto moved = tuner_.try_on(scenario(stretch), stretch, now);
    if (log_ != nullptr) {
      ++log_->trials;
      log_->replayed += came_.size();
    }
    if (!moved.ok() || !*moved) return;
    scheduler_->set_rules(rule_rows()[**moved].rules, now, out);
    if (log_ != nullptr) log_->moves.push_back({now, **moved});
  }

  simulate::Scenario scenario(const Stretch& stretch) const {
    simulate::Scenario scenario;
    scenario.warmup = stretch.measured - stretch.from;
    scenario.duration = stretch.until - stretch.measured;
    scenario.network = delay_;
    scenario.rate_rps = 1;
    scenario.models = models_;
    for (const Worker& worker : workers_) {
      if (worker.type >= scenario.workers.size())
        scenario.workers.resize(worker.type + 1, {.count = 0});
      if (worker.serves) ++scenario.workers[worker.type].count;
    }
    std::vector<std::vector<simulate::RecordedArrivals::Request>> requests(models_.size());
    for (const Came& each : came_) {
      requests[each.service].push_back({each.at - stretch.from, each.slo, each.items});
    }
    for (size_t i = 0; i < models_.size(); ++i) {
      scenario.models[i].arrival = simulate::RecordedArrivals{
          std::make_shared<const std::vector<simulate::RecordedArrivals::Request>>(
              std::move(requests[i]))};
    }
    return scenario;
  }

  const std::unique_ptr<policy::Scheduler> scheduler_;
  TuningLog* const log_;
  RuleTuner tuner_{Time()};
  bool plain_ = true;  // no services of several models
  policy::DelayBound delay_;
  std::vector<simulate::SimulatedModel> models_;  // by key
  std::vector<Worker> workers_;
  std::deque<Came> came_;
  Time look_at_ = Time::infinite();
};

}  // namespace

policy::Listener tuning(TuningLog* log) {
  return [log](std::unique_ptr<policy::Scheduler> scheduler) -> std::unique_ptr<policy::Scheduler> {
    if (log != nullptr) *log = {};
    return std::make_unique<TunedScheduler>(std::move(scheduler), log);
  };
}

policy::Listener tuning_for(const simulate::Scenario& scenario, TuningLog* log) {
  const bool fixed = scenario.scheduler != rule_rows().front().name || scenario.groups.rules;
  return fixed ? policy::Listener() : tuning(log);
}

Json write_tuning(const TuningLog& log) {
  Json moves = Json::array();
  for (const TuningLog::Move& move : log.moves) {
    moves.push_back(
        {{"at_s", (move.at - Time()).seconds()}, {"rules", rule_rows()[move.row].name}});
  }
  const size_t last = log.moves.empty() ? 0 : log.moves.back().row;
  return {{"rules", rule_rows()[last].name}, {"trials", log.trials}, {"moves", std::move(moves)}};
}

}  // namespace fermata::tune
