#include <utility>

#include "base/random.h"
#include "policy/scheduler.h"
#include "scaling/cases.h"

namespace fermata::scaling {
namespace {

using namespace policy;

// Many keys, as of requests of many shapes, and as many workers.
class Keys {
 public:
  explicit Keys(size_t n, size_t workers = 1) : scheduler_(*make_scheduler("fermata")) {
    for (size_t w = 0; w < workers; ++w) add_worker();
    for (size_t k = 0; k < n; ++k) add();
  }
  void add() { add(latency_); }
  void add(const LatencyByType& latency) {
    keys_.push_back(scheduler_->add_key({.name = "m", .latency = latency}));
  }
  void add_worker() {
    scheduler_->add_worker(now_, out_);
    out_.clear();
  }
  // One task for each, none of which a worker is free for but the first.
  void nominate_all(double budget_ms = 1e7) {
    Random random(7);
    for (const KeyId key : keys_) {
      const Duration budget = Duration::from_millis(budget_ms * (0.5 + random.uniform()));
      scheduler_->nominate({JobId(++jobs_), key, now_, now_ + budget}, now_, out_);
      act();
    }
  }
  // One task for each of these, whose deadlines no other batch leaves alone, and for as many
  // others. All ends before the pool's load is computed again, which is done so often a second.
  void nominate_beside_tight() {
    const size_t n = std::exchange(keys_, {}).size();
    for (size_t k = 0; k < n; ++k) add(quick_);
    nominate_all(0.02);
    keys_.clear();
    for (size_t k = 0; k < n; ++k) add(slow_);
    nominate_all();
  }
  void serve_all() {
    while (!running_.empty()) {
      const Batch batch = std::move(running_.back());
      running_.pop_back();
      now_ = std::max(now_, batch.finish);
      scheduler_->ended(batch.worker, now_, out_);
      act();
    }
  }
  void update_all() {
    for (const KeyId key : keys_) {
      scheduler_->update_latency(key, slower_, now_, out_);
      act();
    }
  }
  void remove_all() {
    Random random(11);
    for (size_t i = keys_.size(); i > 1; --i) std::swap(keys_[i - 1], keys_[random.below(i)]);
    for (const KeyId key : keys_) scheduler_->remove_key(key);
  }

 private:
  void act() {
    for (Batch& batch : out_.bound) running_.push_back(std::move(batch));
    out_.clear();
  }

  const LatencyByType latency_ = *LatencyTable::make(LinearLatency{1, 4}, 16);
  const LatencyByType quick_ = *LatencyTable::make(LinearLatency{0.001, 0.004}, 16);
  const LatencyByType slow_ = *LatencyTable::make(LinearLatency{0.001, 0.03}, 16);
  const LatencyByType slower_ = *LatencyTable::make(LinearLatency{2, 4}, 16);
  const std::unique_ptr<Scheduler> scheduler_;
  Decisions out_;
  Time now_ = Time::from_nanos(1'000'000);
  uint64_t jobs_ = 0;
  std::vector<KeyId> keys_;
  std::vector<Batch> running_;
};

}  // namespace

void add_key_cases(Cases& cases) {
  constexpr size_t kKeys = 250;
  const auto add = [&cases](const char* name, void (*prepare)(Keys&), void (*work)(Keys&)) {
    cases.push_back({name, kKeys, [prepare, work](size_t n) {
                       Keys keys(n);
                       prepare(keys);
                       measured([&] { work(keys); });
                     }});
  };
  const auto nothing = [](Keys&) {};
  const auto nominate = [](Keys& keys) { keys.nominate_all(); };
  cases.push_back({"keys_add", kKeys, [](size_t n) { measured([n] { Keys keys(n); }); }});
  add("keys_nominate", nothing, nominate);
  add("keys_freed", nominate, [](Keys& keys) { keys.serve_all(); });
  add(
      "keys_freed_tight", [](Keys& keys) { keys.nominate_beside_tight(); },
      [](Keys& keys) { keys.serve_all(); });
  cases.back().power = 2;  // a grant looks at each key that it concerns: 256 shapes of a model
  add("keys_update", nothing, [](Keys& keys) { keys.update_all(); });
  add("keys_update_waiting", nominate, [](Keys& keys) { keys.update_all(); });
  add("keys_remove", nothing, [](Keys& keys) { keys.remove_all(); });
  cases.push_back({"workers_add", kKeys, [](size_t n) { measured([n] { Keys keys(1, n); }); }});
}

}  // namespace fermata::scaling
