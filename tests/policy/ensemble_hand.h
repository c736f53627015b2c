#pragma once

#include <deque>
#include <map>
#include <vector>

#include "policy/hand.h"

namespace fermata::policy {

// A scheduler with ensembles, driven by hand; or by run_until(), whose workers end every batch
// when expected.
struct EnsembleHand : Hand {
  using Hand::Hand;

  // Base models of this latency each, whose answers are worth `utility` by subset in any bin.
  KeyId ensemble(const std::vector<double>& run_ms, std::vector<std::vector<double>> utility,
                 double alpha_ms = 0, bool serve_all = false, plan::Subset fixed = 0) {
    models.clear();
    for (const double run : run_ms) models.push_back(key(alpha_ms, run - alpha_ms, 100, 16));
    EnsembleInfo info{.name = "e", .models = models, .utility = std::move(utility), .share = {}};
    info.serve_all = serve_all;
    info.fixed = fixed;
    info.share.assign(info.utility.size(), 1 / static_cast<double>(info.utility.size()));
    return scheduler->add_service(info);
  }
  void scored(const Task& task, uint32_t bin, double now_ms) {
    const Difficulty difficulty{.bin = bin, .score = static_cast<double>(bin)};
    scheduler->learned(task, difficulty, at_ms(now_ms), out);
  }
  bool withdraw(const Task& task, double now_ms) {
    return scheduler->withdraw(task, at_ms(now_ms), out);
  }

  // Takes what was decided into the account of what runs and what has ended.
  void note() {
    for (Batch& batch : out.bound) running.emplace(batch.finish, batch);
    for (const Concluded& c : out.concluded) concluded.push_back(c);
    for (const Dropped& d : out.dropped) dropped.push_back(d);
    out.clear();
  }
  void run_until(double end_ms) {
    const Time end = at_ms(end_ms);
    for (note(); steps < kMostSteps; ++steps, note()) {
      const Time ends = running.empty() ? Time::infinite() : running.begin()->first;
      const Time wakes = std::max(now, scheduler->next_wake());
      if (std::min(ends, wakes) > end) return;
      now = std::min(ends, wakes);
      if (ends > wakes) {
        scheduler->tick(now, out);
        continue;
      }
      const WorkerId worker = running.begin()->second.worker;
      running.erase(running.begin());
      scheduler->ended(worker, now, out);
    }
    ADD_FAILURE() << "it never comes to rest; now at " << (now - Time()).millis() << " ms";
  }

  static constexpr int kMostSteps = 200'000;

  std::vector<KeyId> models;  // of the last ensemble
  std::multimap<Time, Batch> running;
  std::vector<Concluded> concluded;
  std::vector<Dropped> dropped;
  Time now;
  int steps = 0;
};

}  // namespace fermata::policy
