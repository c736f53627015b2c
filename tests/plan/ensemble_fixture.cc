#include "plan/ensemble_fixture.h"

namespace fermata::plan {

EnsembleProblem random_ensemble_problem(Random& random, size_t queries, size_t models) {
  EnsembleProblem p;
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random.below(uint64_t(n))); };
  for (size_t k = 0; k < models; ++k) {
    p.models.push_back({"m" + std::to_string(k),
                        Duration::millis(random.below(8) == 0 ? 0 : 1 + below(6)),
                        Duration::millis(random.below(2) == 0 ? 0 : below(6))});
  }
  const bool coarse = random.below(2) == 0, monotone = random.below(2) == 0;
  for (size_t i = 0; i < queries; ++i) {
    EnsembleQuery q = {.id = "q" + std::to_string(i)};
    if (random.below(12) > 0) q.deadline = Duration::millis(below(4 + 2 * int64_t(queries)));
    q.arrival = Duration::millis(-below(4));
    q.difficulty = 0.25 * double(random.below(4));
    q.utility.assign(size_t{1} << models, 0.0);
    for (Subset s = 1; s < q.utility.size(); ++s) {
      q.utility[s] = coarse ? 0.25 * double(random.below(5)) : random.uniform();
      if (!monotone) continue;
      for (Subset part = 1; part < s; ++part) {
        if ((part & s) == part) q.utility[s] = std::max(q.utility[s], q.utility[part]);
      }
    }
    p.queries.push_back(std::move(q));
  }
  return p;
}

void share_workers(Random& random, EnsembleProblem& problem) {
  for (BaseModel& m : problem.models) m.worker = "w" + std::to_string(random.below(2));
}

void check_ensemble_plan(const EnsembleProblem& p, const EnsemblePlan& plan) {
  std::vector<Duration> free;
  for (size_t k = 0; k < p.models.size(); ++k) {
    free.push_back(p.models[k].busy);
    free[p.worker_of(k)] = std::max(free[p.worker_of(k)], p.models[k].busy);
  }
  std::vector<int> seen(p.queries.size());
  double utility = 0;
  for (const EnsemblePlan::Served& s : plan.plan) {
    ASSERT_LT(s.query, p.queries.size());
    ASSERT_NE(s.subset, 0u);
    ++seen[s.query];
    Duration finish;
    for (size_t k = 0; k < p.models.size(); ++k) {
      if ((s.subset >> k & 1) == 0) continue;
      Duration& end = free[p.worker_of(k)];
      end += p.models[k].latency;
      finish = std::max(finish, end);
    }
    EXPECT_EQ(s.finish, finish);
    EXPECT_LE(s.finish, p.queries[s.query].deadline);
    utility += p.queries[s.query].utility[s.subset];
  }
  EXPECT_NEAR(plan.utility, utility, 1e-9);
  EXPECT_TRUE(std::is_sorted(plan.unserved.begin(), plan.unserved.end()));
  for (const uint32_t q : plan.unserved) ++seen[q];
  EXPECT_THAT(seen, testing::Each(1));
}

}  // namespace fermata::plan
