#include "policy/variants/variants_queue.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/random.h"
#include "plan/variants/group_document.h"
#include "policy/hand.h"

namespace fermata::policy {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

KeyInfo info(uint32_t variant, double ms) {
  return {.name = "v" + std::to_string(variant),
          .latency = linear(0, ms),
          .variant = VariantId(variant),
          .load = Duration::millis(1),
          .memory_bytes = 1 << 20};
}

VariantsInfo one_variant(const std::string& name, KeyId key) {
  return {.name = name, .variants = {{key, 0.9, {}}}, .penalty = {}, .prior = {0.5, 0.5}};
}

Task task(uint64_t job, KeyId key, double arrival_ms, double deadline_ms) {
  return {JobId(job), key, at_ms(arrival_ms), at_ms(deadline_ms), 1};
}

std::vector<uint64_t> jobs(VariantsQueue& queue, double now_ms, size_t most) {
  std::vector<uint64_t> jobs;
  const size_t count = queue.problem(at_ms(now_ms), most).requests.size();
  for (size_t i = 0; i < count; ++i) jobs.push_back(queue.chosen(i).task.job.value());
  return jobs;
}

struct OneService {
  OneService() {
    pool.add_model(KeyId(0), info(0, 5));
    queue.add_service(KeyId(1), one_variant("a", KeyId(0)));
    pool.add_worker(0, int64_t{10} << 20);
  }
  PoolView pool;
  VariantsQueue queue{pool};
};

// Of nine, five are late at 100. Six are looked at: what comes next, and the latest of the late.
TEST(VariantsQueue, LooksAtThoseWhoseDeadlinesAreNearest) {
  OneService o;
  for (uint64_t j = 1; j <= 9; ++j) {
    const double deadline_ms = j <= 5 ? 50 + static_cast<double>(j) : 200 + static_cast<double>(j);
    o.queue.insert(task(j, KeyId(1), 0, deadline_ms), at_ms(0));
  }
  EXPECT_THAT(jobs(o.queue, 100, 6), ElementsAre(4, 5, 6, 7, 8, 9));
  EXPECT_THAT(jobs(o.queue, 100, 8), ElementsAre(2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT(jobs(o.queue, 100, 3), ElementsAre(5, 6, 7));
  EXPECT_THAT(jobs(o.queue, 0, 3), ElementsAre(1, 2, 3));
  EXPECT_THAT(jobs(o.queue, 1000, 3), ElementsAre(7, 8, 9));
  EXPECT_THAT(jobs(o.queue, 100, 100), SizeIs(9));
}

TEST(VariantsQueue, ForgetsModelsThatNoKeyHas) {
  OneService o;
  for (uint32_t v = 1; v <= 50; ++v) {  // reloads: each a variant of its own
    o.pool.add_model(KeyId(2), info(v, 5));
    o.pool.residents().use(WorkerId(0), KeyId(2));
    o.pool.remove_model(KeyId(2));
  }
  const plan::GroupProblem& problem = o.queue.problem(at_ms(0), 10);
  EXPECT_THAT(problem.models, SizeIs(2));
  EXPECT_THAT(problem.workers[0].loaded, IsEmpty());
  EXPECT_TRUE(o.pool.residents().use(WorkerId(0), KeyId(0)));
  EXPECT_THAT(o.queue.problem(at_ms(0), 10).workers[0].loaded, ElementsAre(0));
  // What it says of itself can be read again.
  const Json document = to_document(problem);
  EXPECT_FALSE(document.contains("other_models"));
}

TEST(VariantsQueue, KeepsModelsThatAnotherShapeHas) {
  OneService o;
  o.pool.add_model(KeyId(2), info(0, 7));
  o.pool.residents().use(WorkerId(0), KeyId(2));
  o.pool.remove_model(KeyId(2));
  EXPECT_FALSE(o.pool.residents().use(WorkerId(0), KeyId(0)));
}

// Those who have left, whether by the data or without any; the newest 32.
TEST(VariantsQueue, RemembersWhatWasExpectedOfThoseWhoLeft) {
  OneService o;
  VariantsInfo b = one_variant("b", KeyId(0));
  b.variants[0].recall = {1, 0.5};
  o.queue.add_service(KeyId(2), b);
  const auto pass = [&o](uint64_t job, Evidence evidence) {
    const Task t = task(job, KeyId(2), 0, 100);
    o.queue.insert(t, at_ms(0));
    o.queue.learned(t, std::move(evidence));
    EXPECT_TRUE(o.queue.erase(t));
  };
  pass(1, {});
  pass(2, {3, 0});  // classes 7 : 1
  EXPECT_THAT(o.queue.recent(1), ElementsAre(0.9, 0.9375));
  EXPECT_THAT(o.queue.recent(0), IsEmpty());
  for (uint64_t j = 3; j <= 33; ++j) pass(j, {0, 3});
  EXPECT_THAT(o.queue.recent(1), SizeIs(32));
  EXPECT_EQ(o.queue.recent(1)[0], 0.5625);  // in the place of the first
  EXPECT_EQ(o.queue.recent(1)[1], 0.9375);
}

// A fast worker does as much as ten of eight slow ones, of which one is granted.
TEST(VariantsQueue, SharesWithTheNextWorkerOfAnotherType) {
  PoolView pool;
  KeyInfo model = info(0, 50);
  model.latency = LatencyByType({linear(0, 50), linear(0, 5)});
  pool.add_model(KeyId(0), model);
  for (int w = 0; w < 8; ++w) pool.add_worker(0);
  pool.add_worker(1);
  VariantsQueue queue(pool);
  queue.add_service(KeyId(1), one_variant("a", KeyId(0)));
  for (uint64_t j = 1; j <= 18; ++j) queue.insert(task(j, KeyId(1), 0, 100), at_ms(0));
  plan::GroupProblem problem;
  queue.share(WorkerId(0), at_ms(0), at_ms(0), 4, 48, problem);
  ASSERT_THAT(problem.workers, SizeIs(4));
  EXPECT_EQ(problem.workers[0].name, "0");
  EXPECT_EQ(problem.workers[1].type, 1u);
  EXPECT_EQ(problem.workers[2].type, 0u);
  EXPECT_EQ(problem.workers[3].type, 0u);
  EXPECT_THAT(problem.requests, SizeIs(13));  // these four do 13 of 18 parts
}

TEST(VariantsQueue, RemovedServicesAreExpectedNoMore) {
  OneService o;
  o.queue.add_service(KeyId(2), one_variant("b", KeyId(0)));
  o.queue.add_service(KeyId(3), one_variant("c", KeyId(0)));
  for (uint64_t j = 1; j <= 200; ++j) {
    const Task of_a = task(j, KeyId(1), static_cast<double>(j), 1000);
    o.queue.insert(of_a, of_a.arrival);
    o.queue.erase(of_a);
  }
  o.queue.insert(task(500, KeyId(3), 200, 300), at_ms(200));
  EXPECT_GT(o.queue.rate_rps(0, at_ms(201)), 500);
  const plan::GroupProblem& problem = o.queue.problem(at_ms(201), 10);
  o.queue.remove(KeyId(1));
  ASSERT_THAT(problem.services, SizeIs(2));
  EXPECT_EQ(problem.services[0].name, "c");  // the last has taken its place
  EXPECT_EQ(problem.requests[0].service, 0u);
  EXPECT_EQ(o.queue.find(task(500, KeyId(3), 200, 300))->service, 0u);
  EXPECT_EQ(o.queue.waiting_items(KeyId(3)), 1u);
  EXPECT_LT(o.queue.rate_rps(0, at_ms(201)), 500);
}

TEST(VariantsQueue, TheRateFallsWhereNothingComes) {
  OneService o;
  for (uint64_t j = 1; j <= 200; ++j) {
    o.queue.insert(task(j, KeyId(1), static_cast<double>(j), 1000), at_ms(static_cast<double>(j)));
  }
  EXPECT_GT(o.queue.rate_rps(0, at_ms(210)), 500);
  EXPECT_EQ(o.queue.rate_rps(0, at_ms(60'000)), 0);
}

// Against a list that is sorted and searched anew each time.
struct NaiveQueue {
  std::vector<VariantsQueue::Waiting> all;

  auto find(const Task& t) {
    return std::find_if(all.begin(), all.end(), [&](const auto& w) { return w.task.job == t.job; });
  }
  void insert(const Task& t) {
    all.push_back({.task = t});
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
      return std::pair(a.task.deadline, a.task.job) < std::pair(b.task.deadline, b.task.job);
    });
  }
  Time first_moment() const {
    Time first = Time::infinite();
    for (const auto& w : all) first = std::min(first, w.moment);
    return first;
  }
  std::vector<uint64_t> nearest(Time now, size_t most) const {
    std::vector<uint64_t> late, next;
    for (const auto& w : all) {
      (w.task.deadline < now ? late : next).push_back(w.task.job.value());
    }
    const size_t room = most - std::min(next.size(), most - std::min(most / 3, late.size()));
    const size_t of_late = std::min(late.size(), room);
    std::vector<uint64_t> jobs(late.end() - static_cast<ptrdiff_t>(of_late), late.end());
    for (size_t i = 0; i < next.size() && jobs.size() < most; ++i) jobs.push_back(next[i]);
    return jobs;
  }
};

TEST(VariantsQueue, IsAsANaiveOneOnRandomEvents) {
  OneService o;
  o.queue.add_service(KeyId(2), one_variant("b", KeyId(0)));
  NaiveQueue naive;
  Random random(7);
  std::vector<Task> seen;
  for (uint64_t event = 1; event <= 5000; ++event) {
    const double now_ms = static_cast<double>(event);
    const uint64_t kind = random.below(5);
    if (kind <= 1 || seen.empty()) {
      Task t = task(event, KeyId(1 + random.below(2)), now_ms, now_ms + 1 + random.below(100));
      if (random.below(10) == 0) t.deadline = Time::infinite();
      o.queue.insert(t, at_ms(now_ms));
      naive.insert(t);
      seen.push_back(t);
    } else {
      const Task& t = seen[random.below(seen.size())];
      const auto it = naive.find(t);
      const bool there = it != naive.all.end();
      if (kind == 2) {
        ASSERT_EQ(o.queue.erase(t), there);
        if (there) naive.all.erase(it);
      } else if (kind == 3) {
        const auto c = static_cast<uint32_t>(random.below(5));
        auto* known = o.queue.learned(t, {c, 5 - c});
        ASSERT_EQ(known != nullptr, there);
        if (there) {
          ASSERT_THAT(known->evidence, ElementsAre(c, 5 - c));
        }
      } else if (there) {
        const Time moment = random.below(4) == 0
                                ? Time::infinite()
                                : at_ms(now_ms + static_cast<double>(random.below(50)));
        o.queue.set_moment(*o.queue.find(t), moment);
        it->moment = moment;
      }
    }
    ASSERT_EQ(o.queue.first_moment(), naive.first_moment());
    if (!naive.first_moment().is_infinite()) {
      ASSERT_EQ(o.queue.first_due().moment, naive.first_moment());
    }
    const size_t most = random.below(12);
    ASSERT_EQ(jobs(o.queue, now_ms, most), naive.nearest(at_ms(now_ms), most)) << event;
    ASSERT_EQ(o.queue.waiting().size(), naive.all.size());
    ASSERT_EQ(o.queue.waiting_items(KeyId(1)) + o.queue.waiting_items(KeyId(2)), naive.all.size());
  }
}

}  // namespace
}  // namespace fermata::policy
