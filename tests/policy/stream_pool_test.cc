#include "policy/stream/stream_pool.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"
#include "plan/streams_fixture.h"

namespace fermata::policy {
namespace {

using plan::StreamPlan;
using plan::StreamProblem;

// Two DNNs, of which one alone takes 10 and 20 ms, and batches no less for each.
StreamProblem two_sizes(uint32_t workers, uint32_t clients, double rate_rps) {
  StreamProblem p;
  p.workers = workers;
  p.current.resize(workers);
  for (uint32_t v = 0; v < 2; ++v) {
    const double ms = 10 + 10 * v;
    p.variants.push_back({"v" + std::to_string(v), 100 * (v + 1), 0.4 + 0.4 * v, 1,
                          *LatencyTable::make(TableLatency{{{1, ms}, {2, 2 * ms}}}, 2)});
  }
  for (uint32_t c = 0; c < clients; ++c) {
    p.clients.push_back({"c" + std::to_string(c), rate_rps, 100, 100});
  }
  return p;
}

StreamPool::Planned planned(uint32_t workers, const std::vector<StreamProblem>& problems) {
  std::vector<StreamPool::Service> services;
  for (size_t s = 0; s < problems.size(); ++s) {
    services.push_back({"service-" + std::to_string(s), problems[s]});
  }
  StreamPool pool(workers);
  (void)pool.plan(services);
  return pool.plan(services);
}

// What of all workers' time the frames of these plans take.
double load(const std::vector<StreamProblem>& problems, const std::vector<StreamPlan>& plans) {
  double load = 0;
  for (size_t s = 0; s < problems.size(); ++s) {
    for (const StreamPlan::Worker& worker : plans[s].workers) {
      const plan::StreamVariant& v = problems[s].variants[worker.variant];
      for (const uint32_t c : worker.clients) {
        load += problems[s].clients[c].rate_rps / plan::throughput_rps(v, worker.batch);
      }
    }
  }
  return load;
}

// Alone each service would run the larger DNN on both workers: 80 frames a second of 20 ms.
TEST(StreamPool, TwoServicesDoNotPromiseOneWorkerTwice) {
  const std::vector<StreamProblem> problems(2, two_sizes(2, 4, 20));
  EXPECT_EQ(plan::plan_streams(problems[0]).workers.size(), 2u);
  const StreamPool::Planned together = planned(2, problems);
  EXPECT_LE(load(problems, together.plans), 2 + 1e-9);
  for (const StreamPlan& plan : together.plans) {
    EXPECT_EQ(plan.served, 4u);
    ASSERT_EQ(plan.workers.size(), 1u);
    EXPECT_EQ(plan.workers[0].variant, 0u);  // 80 a second of 10 ms
  }
  EXPECT_NE(together.plans[0].workers[0].worker, together.plans[1].workers[0].worker);
}

TEST(StreamPool, AServiceWithoutClientsLeavesAllToTheOther) {
  const std::vector<StreamProblem> problems{two_sizes(2, 4, 20), two_sizes(2, 0, 20)};
  const StreamPool::Planned together = planned(2, problems);
  EXPECT_EQ(together.plans[0].workers.size(), 2u);
  EXPECT_EQ(together.plans[0].mean_accuracy, 0.8);
  EXPECT_EQ(together.plans[1].workers.size(), 0u);
  EXPECT_EQ(together.problem.clients[0].id, "c0");  // as if it were alone
}

TEST(StreamPool, OneWorkerIsPlannedInParts) {
  const std::vector<StreamProblem> problems(2, two_sizes(1, 1, 20));
  const StreamPool::Planned together = planned(1, problems);
  EXPECT_EQ(together.problem.workers, 2u);
  EXPECT_EQ(together.problem.worker_share, 0.5);
  EXPECT_LE(load(problems, together.plans), 1 + 1e-9);
  for (const StreamPlan& plan : together.plans) {
    ASSERT_EQ(plan.served, 1u);
    EXPECT_EQ(plan.workers[0].worker, 0u);
    EXPECT_EQ(plan.workers[0].variant, 1u);  // half a worker carries 25 a second of 20 ms
  }
}

// Its objective has no room for a batch of the other one beside two of its own.
TEST(StreamPool, PartsOfAWorkerCostTheWaitForOthers) {
  std::vector<StreamProblem> problems(2, two_sizes(1, 1, 20));
  problems[1].clients[0].slo_ms = 55;
  const StreamPool::Planned together = planned(1, problems);
  EXPECT_EQ(together.plans[0].workers[0].variant, 1u);
  EXPECT_EQ(together.plans[1].workers[0].variant, 0u);
}

// Six clients on two whole workers, or five and the other one's, are fewer than all on halves.
TEST(StreamPool, AServiceWithFewFramesIsNotLeftOut) {
  std::vector<StreamProblem> problems{two_sizes(2, 6, 20), two_sizes(2, 1, 2)};
  const StreamPool::Planned together = planned(2, problems);
  EXPECT_LE(load(problems, together.plans), 2 + 1e-9);
  EXPECT_EQ(together.plans[0].served, 6u);
  EXPECT_EQ(together.plans[1].served, 1u);
}

// A worker goes on with the service that it had.
TEST(StreamPool, WorkersStayWithTheirServices) {
  std::vector<StreamPool::Service> services{{"a", two_sizes(3, 2, 20)}, {"b", two_sizes(3, 4, 20)}};
  StreamPool pool(3);
  const auto workers_of_a = [&] {
    const StreamPool::Planned together = pool.plan(services);
    std::vector<uint32_t> workers;
    for (const StreamPlan::Worker& w : together.plans[0].workers) workers.push_back(w.worker);
    for (size_t s = 0; s < 2; ++s) {
      for (const StreamPlan::Worker& w : together.plans[s].workers) {
        services[s].problem.current[w.worker] = w.variant;
      }
    }
    return workers;
  };
  const std::vector<uint32_t> first = workers_of_a();
  ASSERT_EQ(first.size(), 1u);
  services[1].problem.clients.pop_back();
  EXPECT_EQ(workers_of_a(), first);
}

TEST(StreamPool, WorkersThatAreNotThereAreNotPlanned) {
  std::vector<StreamPool::Service> services{{"a", two_sizes(3, 4, 20)}, {"b", two_sizes(3, 4, 20)}};
  StreamPool pool(3);
  EXPECT_EQ(pool.plan(services).problem.workers, 3u);
  for (auto& service : services) {
    service.problem.workers = 2;
    service.problem.current.resize(2);
  }
  const StreamPool::Planned fewer = pool.plan(services);
  EXPECT_EQ(fewer.problem.workers * fewer.problem.worker_share, 2);
  for (const StreamPlan& plan : fewer.plans) {
    for (const StreamPlan::Worker& worker : plan.workers) EXPECT_LT(worker.worker, 2u);
  }
  EXPECT_EQ(pool.plan({{"a", two_sizes(3, 4, 20)}}).problem.workers, 3u);
}

// However the workers are divided beforehand, and whatever is planned in each part.
TEST(StreamPool, NoDivisionOfTheWorkersServesMore) {
  Random random(8);
  int unserved = 0;
  for (int i = 0; i < 40; ++i) {
    std::vector<StreamProblem> problems;
    for (int s = 0; s < 2; ++s) {
      problems.push_back(plan::random_stream_problem(random, 3, 3, 5));
    }
    const StreamPool::Planned together = planned(3, problems);
    const uint32_t served = together.plans[0].served + together.plans[1].served;
    const double objective = together.plans[0].objective + together.plans[1].objective;
    EXPECT_LE(load(problems, together.plans), 3 + 1e-9);
    for (uint32_t mine = 1; mine < 3; ++mine) {
      std::pair<uint32_t, double> divided;
      for (uint32_t s = 0; s < 2; ++s) {
        StreamProblem part = problems[s];
        part.workers = s == 0 ? mine : 3 - mine;
        part.current.resize(part.workers);
        const StreamPlan plan = plan::plan_by(part, plan::StreamSolver::kExact);
        divided.first += plan.served;
        divided.second += plan.objective;
      }
      EXPECT_GE(served, divided.first);
      EXPECT_TRUE(served > divided.first || objective >= divided.second - 1e-9);
    }
    unserved += served < 10;
  }
  EXPECT_GT(unserved, 3);
}

}  // namespace
}  // namespace fermata::policy
