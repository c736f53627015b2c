#include "plan/group_fixture.h"

#include <list>

namespace fermata::plan {
namespace {

double pick(Random& random, std::initializer_list<double> values) {
  return values.begin()[random.below(values.size())];
}

Penalty random_penalty(Random& random) {
  return {static_cast<PenaltyShape>(random.below(5)), pick(random, {0, 0.25, 1})};
}

GroupVariant random_variant(Random& random, GroupProblem& p, size_t classes) {
  GroupVariant v;
  if (!p.models.empty() && random.below(6) == 0) {
    v.model = static_cast<uint32_t>(random.below(p.models.size()));
  } else {
    v.model = static_cast<uint32_t>(p.models.size());
    p.models.push_back({"m" + std::to_string(v.model),
                        Duration::millis(static_cast<int64_t>(pick(random, {0, 5, 20}))),
                        static_cast<int64_t>(1 + random.below(4)) << 20});
  }
  v.accuracy = 0.5 + 0.05 * static_cast<double>(random.below(10));
  for (size_t c = 0; c < classes; ++c) {
    v.recall.push_back(0.5 + 0.05 * static_cast<double>(random.below(10)));
  }
  const size_t tables = random.below(2) == 0 ? 1 : p.worker_types.size();
  for (size_t t = 0; t < tables; ++t) {
    v.latency.push_back(linear(pick(random, {0.5, 2, 6}), pick(random, {0, 4, 15}),
                               static_cast<uint32_t>(1 + random.below(4))));
  }
  return v;
}

void random_service(Random& random, GroupProblem& p) {
  GroupService a = {.name = "a" + std::to_string(p.services.size())};
  a.penalty = random_penalty(random);
  const size_t classes = 1 + random.below(3);
  for (size_t c = 0; c < classes; ++c) a.prior.push_back(pick(random, {0.5, 1, 3}));
  for (size_t v = 1 + random.below(3); v > 0; --v) {
    a.variants.push_back(random_variant(random, p, classes));
    // A model that comes twice in one service would be one name twice.
    for (size_t i = 0; i + 1 < a.variants.size(); ++i) {
      if (a.variants[i].model == a.variants.back().model) {
        a.variants.pop_back();
        break;
      }
    }
  }
  if (random.below(2) == 0) a.short_circuit = {"s", 0.4 + 0.1 * double(random.below(5))};
  p.services.push_back(std::move(a));
}

void random_worker(Random& random, GroupProblem& p) {
  GroupWorker w = {.name = "w" + std::to_string(p.workers.size())};
  w.type = static_cast<uint32_t>(random.below(p.worker_types.size()));
  w.free_at = p.now + Duration::millis(static_cast<int64_t>(pick(random, {-3, 0, 7})));
  if (random.below(3) > 0) w.memory_bytes = static_cast<int64_t>(2 + random.below(7)) << 20;
  for (uint32_t m = 0; m < p.models.size(); ++m) {
    if (random.below(4) == 0 && p.models[m].memory_bytes <= w.memory_bytes) w.loaded.push_back(m);
  }
  // Often as the one before, so that workers that are alike are met too.
  if (!p.workers.empty() && random.below(2) == 0) {
    w = p.workers.back();
    w.name = "w" + std::to_string(p.workers.size());
  }
  p.workers.push_back(std::move(w));
}

}  // namespace

GroupProblem random_group_problem(Random& random) {
  GroupProblem p;
  p.now = at_ms(100);
  if (random.below(2) == 0) p.worker_types.push_back("other");
  for (size_t a = 1 + random.below(4); a > 0; --a) random_service(random, p);
  for (size_t w = 1 + random.below(3); w > 0; --w) random_worker(random, p);
  for (size_t n = 1 + random.below(9); n > 0; --n) {
    GroupRequest r = {"r" + std::to_string(p.requests.size())};
    r.service = static_cast<uint32_t>(random.below(p.services.size()));
    r.arrival = p.now - Duration::millis(static_cast<int64_t>(random.below(20)));
    r.deadline = r.arrival + Duration::millis(static_cast<int64_t>(5 + random.below(80)));
    if (random.below(3) > 0) {
      r.evidence = static_cast<uint32_t>(p.evidence.size());
      for (size_t c = 0; c < p.services[r.service].prior.size(); ++c) {
        p.evidence.push_back(static_cast<double>(random.below(6)));
      }
    }
    p.requests.push_back(r);
  }
  return p;
}

void check_group_schedule(const GroupProblem& p, const GroupSchedule& s) {
  std::vector<int> seen(p.requests.size());
  std::vector<double> utility(p.requests.size());
  for (uint32_t w = 0; w < p.workers.size(); ++w) {
    Time free = std::max(p.now, p.workers[w].free_at);
    std::list<uint32_t> loaded(p.workers[w].loaded.begin(), p.workers[w].loaded.end());
    for (const GroupBatch& b : s.batches) {
      if (b.worker != w) continue;
      const GroupVariant& v = p.services[b.service].variants[b.variant];
      const auto& latency = *v.latency[v.latency.size() == 1 ? 0 : p.workers[w].type];
      ASSERT_GE(b.count, 1u);
      ASSERT_LE(b.count, latency.max_batch());
      const bool held = std::find(loaded.begin(), loaded.end(), v.model) != loaded.end();
      loaded.remove(v.model);
      int64_t used = p.models[v.model].memory_bytes;
      for (const uint32_t m : loaded) used += p.models[m].memory_bytes;
      while (!held && used > p.workers[w].memory_bytes) {
        ASSERT_FALSE(loaded.empty());
        used -= p.models[loaded.front()].memory_bytes;
        loaded.pop_front();
      }
      loaded.push_back(v.model);
      EXPECT_EQ(b.load, !held);
      EXPECT_EQ(b.start, free);
      free = free + latency(b.count) + (held ? Duration() : p.models[v.model].load);
      EXPECT_EQ(b.finish, free);
      for (const uint32_t r : s.requests_of(b)) {
        ++seen[r];
        const GroupRequest& q = p.requests[r];
        EXPECT_EQ(q.service, b.service);
        const double lost = p.services[b.service].penalty(q.deadline - q.arrival, free - q.arrival);
        utility[r] = s.expected_accuracy[r] * (1 - lost);
      }
    }
  }
  for (const uint32_t r : s.short_circuited) {
    ++seen[r];
    const GroupRequest& q = p.requests[r];
    const GroupService& a = p.services[q.service];
    ASSERT_TRUE(a.short_circuit && q.evidence);
    EXPECT_EQ(s.expected_accuracy[r], a.short_circuit->accuracy);
    utility[r] =
        a.short_circuit->accuracy * (1 - a.penalty(q.deadline - q.arrival, p.now - q.arrival));
  }
  double sum = 0;
  for (const double u : utility) sum += u;
  EXPECT_NEAR(s.utility, p.requests.empty() ? 0 : sum / double(p.requests.size()), 1e-12);
  for (size_t r = 0; r < seen.size(); ++r) EXPECT_EQ(seen[r], 1) << p.requests[r].id;
}

}  // namespace fermata::plan
