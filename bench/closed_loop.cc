// Clients that send their next request when they have the answer to the last, in virtual time: how
// many are answered on time. Random pools, drawn from a seed.
//
//     bench_closed_loop SEED COUNT [RULE=VALUE ...]     # [on time a second, by pool]
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <queue>
#include <set>
#include <vector>

#include "absl/strings/numbers.h"
#include "base/document.h"
#include "base/random.h"
#include "base/status.h"
#include "policy/rules.h"
#include "policy/scheduler.h"

using namespace fermata;

namespace {

constexpr Duration kEnd = Duration::seconds(20), kFrom = Duration::seconds(2);

struct Drawn {
  explicit Drawn(Random random) : random_(random) {}
  uint64_t whole(uint64_t least, uint64_t most) { return least + random_.below(most - least + 1); }
  double scale(double least, double most) {
    return least * std::exp(random_.uniform() * std::log(most / least));
  }
  Random random_;
};

class ClosedLoop {
 public:
  ClosedLoop(uint64_t seed, uint64_t number, const policy::Rules& rules)
      : scheduler_(*policy::make_scheduler("fermata", {.rules = rules})),
        drawn_(Random(seed * 1'000'003 + number)) {
    const uint64_t workers = drawn_.whole(1, 4), models = drawn_.whole(1, 3);
    for (uint64_t w = 0; w < workers; ++w) scheduler_->add_worker(Time(), out_);
    for (uint64_t m = 0; m < models; ++m) {
      const double alpha = drawn_.scale(0.16, 8), beta = alpha * drawn_.scale(0.4, 20);
      slo_.push_back(Duration::from_millis((alpha + beta) * drawn_.scale(2.8, 40)));
      think_s_.push_back(drawn_.random_.below(2) == 0 ? 0 : drawn_.scale(0.1, 2) * 1e-3 * beta);
      const KeyId key = scheduler_->add_key(
          {"m", *LatencyTable::make(LinearLatency{alpha, beta}, 64), slo_.back()});
      const uint64_t clients = drawn_.whole(1, 16);
      for (uint64_t c = 0; c < clients; ++c) send(key, Time());
    }
  }

  double on_time_rps() {
    for (Time now; now < Time() + kEnd;) {
      now = std::min({next(sends_), next(ends_), scheduler_->next_wake()});
      if (next(ends_) <= now) {
        const WorkerId worker(ends_.begin()->second);
        ends_.erase(ends_.begin());
        scheduler_->ended(worker, now, out_);
      } else if (next(sends_) <= now) {
        const KeyId key(sends_.begin()->second);
        sends_.erase(sends_.begin());
        const Time deadline = now + slo_[key.index()];
        scheduler_->nominate({JobId(++jobs_), key, now, deadline}, now, out_);
      } else {
        scheduler_->tick(now, out_);
      }
      act(now);
    }
    return static_cast<double>(on_time_) / (kEnd - kFrom).seconds();
  }

 private:
  using Events = std::multiset<std::pair<Time, uint32_t>>;
  static Time next(const Events& events) {
    return events.empty() ? Time::infinite() : events.begin()->first;
  }
  void send(KeyId key, Time answered) {
    const double mean_s = think_s_[key.index()];
    const double think_s = mean_s > 0 ? drawn_.random_.exponential(mean_s) : 0;
    sends_.emplace(answered + Duration::from_seconds(think_s), key.value());
  }
  void act(Time now) {
    for (const policy::Batch& batch : out_.bound) {
      ends_.emplace(batch.finish, batch.worker.value());
      for (const policy::Task& task : batch.tasks) {
        on_time_ += batch.finish <= task.deadline && now >= Time() + kFrom;
        send(task.key, batch.finish);
      }
    }
    for (const policy::Dropped& dropped : out_.dropped) send(dropped.task.key, now);
    out_.clear();
  }

  std::unique_ptr<policy::Scheduler> scheduler_;
  policy::Decisions out_;
  Drawn drawn_;
  std::vector<Duration> slo_;
  std::vector<double> think_s_;
  Events sends_, ends_;
  uint64_t jobs_ = 0, on_time_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  uint64_t seed = 0, count = 0;
  if (argc < 3 || !absl::SimpleAtoi(argv[1], &seed) || !absl::SimpleAtoi(argv[2], &count)) {
    std::cerr << "expected SEED COUNT [RULE=VALUE ...]\n";
    return 2;
  }
  policy::Rules rules = *policy::policy_rules("fermata");
  for (int i = 3; i < argc; ++i) {
    if (const absl::Status set = policy::set_rule(rules, argv[i]); !set.ok()) {
      std::cerr << message(set) << "\n";
      return 2;
    }
  }
  Json found = Json::array();
  for (uint64_t n = 0; n < count; ++n) found.push_back(ClosedLoop(seed, n, rules).on_time_rps());
  std::cout << write_json(found);
}
