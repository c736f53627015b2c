#pragma once

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "policy/scheduler.h"

namespace fermata::policy {

// What a driver told a scheduler, call by call, and what each call decided.
struct Told {
  std::function<void(Scheduler&, Decisions&)> again;  // the same call, at the same moment
  std::string decided;
};

// What was decided since there were so many batches, drops and conclusions, and when the scheduler
// wants to be called next.
inline std::string decided_since(const Decisions& out, size_t bound, size_t dropped,
                                 size_t concluded, Time wake) {
  std::string text = fmt::format("wake {}", wake.nanos());
  for (size_t i = bound; i < out.bound.size(); ++i) {
    const Batch& b = out.bound[i];
    text += fmt::format("\nkey {} on {} from {} to {}, {} items, {}, {}", b.key.value(),
                        b.worker.value(), b.start.nanos(), b.finish.nanos(), b.items,
                        b.load ? "loads" : "is there", name(b.rule));
    for (const Task& task : b.tasks) text += fmt::format(" {}", task.job.value());
  }
  for (size_t i = dropped; i < out.dropped.size(); ++i) {
    const Dropped& d = out.dropped[i];
    text += fmt::format("\ndrops {}: wait {}, run {}", d.task.job.value(), d.wait.nanos(),
                        d.run.nanos());
  }
  for (size_t i = concluded; i < out.concluded.size(); ++i) {
    text +=
        fmt::format("\nconcludes {}: {}", out.concluded[i].task.job.value(), out.concluded[i].ran);
  }
  return text;
}

// Hands on all that it is told, and writes it down so that another scheduler can be told the same.
class Retold final : public Scheduler {
 public:
  Retold(std::unique_ptr<Scheduler> inner, std::vector<Told>& told)
      : inner_(std::move(inner)), told_(told) {}

  KeyId add_key(KeyInfo info) override {
    const KeyId key = inner_->add_key(info);
    tell([info](Scheduler& s, Decisions&) { s.add_key(info); });
    return key;
  }
  KeyId add_service(const ServiceInfo& info) override {
    const KeyId key = inner_->add_service(info);
    tell([info](Scheduler& s, Decisions&) { s.add_service(info); });
    return key;
  }
  void remove_key(KeyId key) override {
    inner_->remove_key(key);
    tell([key](Scheduler& s, Decisions&) { s.remove_key(key); });
  }
  void set_delay_bound(DelayBound bound) override {
    inner_->set_delay_bound(bound);
    tell([bound](Scheduler& s, Decisions&) { s.set_delay_bound(bound); });
  }
  void update_latency(KeyId key, LatencyByType latency, Time now, Decisions& out) override {
    call(out, [=](Scheduler& s, Decisions& o) { s.update_latency(key, latency, now, o); });
  }
  bool set_rules(const Rules& rules, Time now, Decisions& out) override {
    call(out, [=](Scheduler& s, Decisions& o) { s.set_rules(rules, now, o); });
    return true;
  }
  WorkerId add_worker(Time now, Decisions& out, uint32_t type, int64_t memory) override {
    call(out, [=](Scheduler& s, Decisions& o) { s.add_worker(now, o, type, memory); });
    return WorkerId(workers_++);
  }
  bool workers_may_leave() const override { return inner_->workers_may_leave(); }
  void planned(const Plan& plan, Time now, Decisions& out) override {
    call(out, [=](Scheduler& s, Decisions& o) { s.planned(plan, now, o); });
  }
  bool serves(Kind kind) const override { return inner_->serves(kind); }
  void learned(const Task& task, const Estimate& estimate, Time now, Decisions& out) override {
    call(out, [=](Scheduler& s, Decisions& o) { s.learned(task, estimate, now, o); });
  }
  void nominate(const Task& task, Time now, Decisions& out) override {
    call(out, [=](Scheduler& s, Decisions& o) { s.nominate(task, now, o); });
  }
  bool withdraw(const Task& task, Time now, Decisions& out) override {
    auto gone = std::make_shared<bool>();
    call(out, [=](Scheduler& s, Decisions& o) { *gone = s.withdraw(task, now, o); });
    return *gone;
  }
  void ended(const BatchEnd& batch, Time now, Decisions& out) override {
    const std::vector<Task> failed(batch.failed.begin(), batch.failed.end());
    const std::vector<Task> away(batch.away.begin(), batch.away.end());
    call(out, [=, worker = batch.worker](Scheduler& s, Decisions& o) {
      s.ended({worker, failed, away}, now, o);
    });
  }
  void tick(Time now, Decisions& out) override {
    call(out, [=](Scheduler& s, Decisions& o) { s.tick(now, o); });
  }
  Time next_wake() const override { return inner_->next_wake(); }
  uint64_t waiting_items(KeyId key) const override { return inner_->waiting_items(key); }
  std::vector<Problem> last_problems() const override { return inner_->last_problems(); }

 private:
  // `out` may hold what was decided before.
  void call(Decisions& out, std::function<void(Scheduler&, Decisions&)> again) {
    const size_t bound = out.bound.size(), dropped = out.dropped.size(),
                 concluded = out.concluded.size();
    again(*inner_, out);
    told_.push_back(
        {std::move(again), decided_since(out, bound, dropped, concluded, inner_->next_wake())});
  }
  void tell(std::function<void(Scheduler&, Decisions&)> again) {
    told_.push_back({std::move(again), decided_since({}, 0, 0, 0, inner_->next_wake())});
  }

  const std::unique_ptr<Scheduler> inner_;
  std::vector<Told>& told_;
  uint32_t workers_ = 0;
};

// Tells the scheduler the same. The first difference to what was decided; empty: there is none.
inline std::string first_difference(const std::vector<Told>& told, Scheduler& scheduler) {
  Decisions out;
  for (size_t i = 0; i < told.size(); ++i) {
    out.clear();
    told[i].again(scheduler, out);
    const std::string decided = decided_since(out, 0, 0, 0, scheduler.next_wake());
    if (decided != told[i].decided) {
      return fmt::format("call {} of {} decided\n{}\ninstead of\n{}", i, told.size(), decided,
                         told[i].decided);
    }
  }
  return {};
}

}  // namespace fermata::policy
