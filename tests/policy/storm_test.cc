#include <map>

#include "any_rules.h"
#include "base/random.h"
#include "hand.h"

namespace fermata::policy {
namespace {

// Real time at its worst: ticks come late, workers end early or late, deadlines
// come in any order, clients leave, latencies change, keys and workers are added, and these may be
// unlike.
class Storm {
 public:
  Storm(std::string_view policy, uint64_t seed)
      : hand_(policy), random_(seed), types_(1 + random_.below(3)) {
    if (random_.below(2) == 0) {
      hand_.scheduler->set_delay_bound({Duration::micros(300), Duration::micros(30)});
    }
    add_key();
    for (uint32_t type = 0; type < types_; ++type) add_worker(type);
  }

  void step() {
    now_ += random_.exponential(0.4);
    switch (random_.below(20)) {
      case 0:
        if (keys_.size() < 5) add_key();
        break;
      case 1:
        if (workers_.size() < 5) add_worker(static_cast<uint32_t>(random_.below(types_)));
        break;
      case 2:
        withdraw();
        break;
      case 3:
        hand_.scheduler->update_latency(any_key(), latency(), at_ms(now_), hand_.out);
        break;
      case 4:
      case 5:
      case 6:
        end_batches();
        break;
      case 7:
      case 8:
      case 9:
        hand_.tick(now_);
        break;
      default:
        arrive();
    }
    settle();
  }

  void change_rules() {
    if (random_.below(8) != 0) return;
    EXPECT_TRUE(hand_.scheduler->set_rules(any_rules(random_), at_ms(now_), hand_.out));
    settle();
  }

  // Everything that is left ends once nothing new comes and workers go on.
  void calm() {
    for (int i = 0; i < 4000 && !waiting_.empty(); ++i) {
      now_ += 1;
      end_batches(/*all=*/true);
      settle();
      hand_.tick(now_);
      settle();
    }
    EXPECT_TRUE(waiting_.empty()) << waiting_.size() << " tasks never ended";
  }

 private:
  struct Worker {
    std::vector<Time> ends;
  };

  KeyId any_key() { return keys_[random_.below(keys_.size())]; }
  LatencyByType latency() {
    std::vector<LatencyByType::Table> tables;
    for (uint64_t type = 0; type < types_; ++type) {
      tables.push_back(linear(0.2 + 2 * random_.uniform(), 4 * random_.uniform(), 12));
    }
    return LatencyByType(std::move(tables));
  }
  void add_key() {
    keys_.push_back(hand_.scheduler->add_key(
        {"k", latency(), random_.below(2) == 0 ? Duration::infinite() : Duration::millis(30)}));
  }
  void add_worker(uint32_t type) {
    hand_.scheduler->add_worker(at_ms(now_), hand_.out, type);
    workers_.emplace_back();
  }
  void arrive() {
    const uint32_t items = 1 + static_cast<uint32_t>(random_.below(12)) / 9;
    const bool best_effort = random_.below(8) == 0;
    const Task task = best_effort ? hand_.arrive_best_effort(any_key(), now_, items)
                                  : hand_.arrive(any_key(), now_, 40 * random_.uniform(), items);
    waiting_.emplace(task.job, task);
  }
  void withdraw() {
    if (waiting_.empty()) return;
    const Task task =
        std::next(waiting_.begin(), static_cast<std::ptrdiff_t>(random_.below(waiting_.size())))
            ->second;
    ASSERT_TRUE(hand_.scheduler->withdraw(task, at_ms(now_), hand_.out));
    waiting_.erase(task.job);
  }
  // A batch ends when it should, or some time after, or before.
  void end_batches(bool all = false) {
    for (uint32_t w = 0; w < workers_.size(); ++w) {
      std::vector<Time>& ends = workers_[w].ends;
      if (ends.empty() || (!all && ends[0] > at_ms(now_ + 2) && random_.below(4) != 0)) continue;
      ends.erase(ends.begin());
      hand_.freed(WorkerId(w), now_);
    }
  }
  void settle() {
    for (const Batch& batch : hand_.out.bound) {
      EXPECT_GE(batch.start, at_ms(now_));
      EXPECT_LE(batch.items, 12u);
      EXPECT_LE(workers_.at(batch.worker.index()).ends.size(), 1u);
      workers_[batch.worker.index()].ends.push_back(batch.finish);
      uint32_t items = 0;
      for (const Task& task : batch.tasks) {
        items += task.items;
        EXPECT_LE(batch.finish, task.deadline);
        EXPECT_EQ(waiting_.erase(task.job), 1u) << "ended twice, or never came";
      }
      EXPECT_EQ(items, batch.items);
    }
    for (const Dropped& dropped : hand_.out.dropped) {
      EXPECT_FALSE(dropped.task.deadline.is_infinite());
      EXPECT_EQ(waiting_.erase(dropped.task.job), 1u) << "ended twice, or never came";
    }
    hand_.out.clear();
    uint64_t items = 0, counted = 0;
    for (const auto& [job, task] : waiting_) items += task.items;
    for (const KeyId key : keys_) counted += hand_.scheduler->waiting_items(key);
    EXPECT_EQ(items, counted);
  }

  Hand hand_;
  Random random_;
  const uint64_t types_;
  double now_ = 0;
  std::vector<KeyId> keys_;
  std::vector<Worker> workers_;
  std::map<JobId, Task> waiting_;
};

class InAStorm : public testing::TestWithParam<std::string_view> {};

TEST_P(InAStorm, EveryTaskEndsExactlyOnce) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Storm storm(GetParam(), seed);
    for (int i = 0; i < 1500; ++i) storm.step();
    storm.calm();
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

TEST(InAStormOfRules, EveryTaskEndsExactlyOnce) {
  for (uint64_t seed = 1; seed <= 80; ++seed) {
    Storm storm("fermata", seed);
    for (int i = 0; i < 1500; ++i) {
      storm.step();
      storm.change_rules();
    }
    storm.calm();
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(All, InAStorm, testing::ValuesIn(scheduler_names()), test_name);

}  // namespace
}  // namespace fermata::policy
