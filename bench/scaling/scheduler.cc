#include "policy/scheduler.h"

#include <algorithm>
#include <queue>

#include "base/random.h"
#include "scaling/cases.h"

namespace fermata::scaling {
namespace {

using namespace policy;

enum class Kind { kPlain, kVariants, kEnsemble };

// A scheduler with one worker and one service, and a clock that the case moves.
class Pool {
 public:
  explicit Pool(Kind kind) : scheduler_(*make_scheduler("fermata")) {
    scheduler_->add_worker(now_, out_);
    std::vector<KeyId> keys;
    for (uint32_t m = 0; m < (kind == Kind::kPlain ? 1 : 3); ++m) {
      keys.push_back(
          scheduler_->add_key({.name = "m" + std::to_string(m),
                               .latency = *LatencyTable::make(LinearLatency{1.0 + m, 4.0 + m}, 16),
                               .variant = VariantId(m)}));
    }
    key_ = keys[0];
    if (kind == Kind::kVariants) {
      VariantsInfo info{.name = "a", .penalty = {plan::PenaltyShape::kStep}, .prior = {0.5, 0.5}};
      for (uint32_t m = 0; m < 3; ++m)
        info.variants.push_back({keys[m], 0.7 + 0.1 * m, {0.9, 0.6}});
      key_ = scheduler_->add_service(info);
    } else if (kind == Kind::kEnsemble) {
      key_ = scheduler_->add_service(
          EnsembleInfo{.name = "e",
                       .models = keys,
                       .utility = {{0, 0.9, 0.92, 0.95, 0.93, 0.96, 0.97, 1},
                                   {0, 0.4, 0.5, 0.7, 0.6, 0.8, 0.9, 1}},
                       .share = {0.7, 0.3}});
    }
  }

  // Requests of one item, no two with the same deadline, not in the order of their deadlines.
  void arrive(size_t n, double slo_ms, uint32_t items = 1) {
    Random random(7);
    for (size_t i = 0; i < n; ++i) {
      const Duration budget = Duration::from_millis(slo_ms * (0.5 + random.uniform()));
      tasks_.push_back({JobId(tasks_.size() + 1), key_, now_, now_ + budget, items});
      scheduler_->nominate(tasks_.back(), now_, out_);
      act();
    }
  }
  // In an order that has nothing to do with that of the queue.
  template <class Each>
  void shuffled(Each each) {
    Random random(11);
    std::vector<Task> order = tasks_;
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    for (const Task& task : order) each(task), act();
  }
  void withdraw_all() {
    shuffled([this](const Task& task) { (void)scheduler_->withdraw(task, now_, out_); });
  }
  void learn_all() {
    shuffled([this](const Task& task) {
      scheduler_->learned(task, Evidence{uint32_t(task.job.value() % 5), 2}, now_, out_);
    });
  }
  void score_all() {
    shuffled([this](const Task& task) {
      scheduler_->learned(task, Difficulty{.bin = uint32_t(task.job.value() % 2), .score = 0.5},
                          now_, out_);
    });
  }
  void be_late(double ms) {
    now_ = now_ + Duration::from_millis(ms);
    tick();
  }
  // One after the other, each alone.
  void expire_all() {
    std::sort(tasks_.begin(), tasks_.end(),
              [](const Task& a, const Task& b) { return a.deadline < b.deadline; });
    for (const Task& task : tasks_) {
      now_ = std::max(now_, task.deadline);
      tick();
    }
  }
  // Until nothing waits or runs.
  void serve_all() {
    for (tick(); !running_.empty(); tick()) {
      const auto [end, worker] = running_.top();
      running_.pop();
      now_ = std::max(now_, end);
      scheduler_->ended(worker, now_, out_);
      act();
    }
  }

 private:
  using End = std::pair<Time, WorkerId>;
  void tick() {
    scheduler_->tick(now_, out_);
    act();
  }
  void act() {
    for (const Batch& batch : out_.bound)
      running_.push({std::max(batch.finish, now_), batch.worker});
    out_.clear();
  }

  const std::unique_ptr<Scheduler> scheduler_;
  Decisions out_;
  Time now_ = Time::from_nanos(1'000'000);
  KeyId key_;
  std::vector<Task> tasks_;
  std::priority_queue<End, std::vector<End>, std::greater<End>> running_;
};

void add_cases(const std::string& name, Kind kind, size_t n, Cases& cases) {
  const auto with_waiting = [kind](size_t count, double slo_ms, const auto& work) {
    Pool pool(kind);
    pool.arrive(count, slo_ms);
    measured([&] { work(pool); });
  };
  constexpr double kRelaxed = 1e7, kTight = 1e3;
  cases.push_back({name + "_nominate", n, [kind](size_t count) {
                     Pool pool(kind);
                     measured([&] { pool.arrive(count, kRelaxed); });
                   }});
  cases.push_back({name + "_withdraw", n, [with_waiting](size_t count) {
                     with_waiting(count, kRelaxed, [](Pool& pool) { pool.withdraw_all(); });
                   }});
  cases.push_back({name + "_drop", n, [with_waiting](size_t count) {
                     with_waiting(count, kTight, [](Pool& pool) { pool.be_late(1e4); });
                   }});
  cases.push_back({name + "_expire", n, [kind](size_t count) {
                     Pool pool(kind);
                     pool.arrive(count / 2, kRelaxed,
                                 kind == Kind::kPlain ? 2 : 1);  // the others' have one
                     pool.arrive(count / 2, kTight);
                     measured([&] { pool.expire_all(); });
                   }});
  cases.push_back({name + "_freed", n, [with_waiting](size_t count) {
                     with_waiting(count, kRelaxed, [](Pool& pool) { pool.serve_all(); });
                   }});
  if (kind == Kind::kVariants) {
    cases.push_back({name + "_learned", n, [with_waiting](size_t count) {
                       with_waiting(count, kRelaxed, [](Pool& pool) { pool.learn_all(); });
                     }});
  }
  if (kind == Kind::kEnsemble) {
    cases.push_back({name + "_scored", n, [with_waiting](size_t count) {
                       with_waiting(count, kRelaxed, [](Pool& pool) { pool.score_all(); });
                     }});
  }
}

}  // namespace

void add_scheduler_cases(Cases& cases) {
  add_cases("plain", Kind::kPlain, 4'000, cases);
  add_cases("variants", Kind::kVariants, 1'000, cases);
  add_cases("ensemble", Kind::kEnsemble, 250, cases);
}

}  // namespace fermata::scaling
