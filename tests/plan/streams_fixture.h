#pragma once

#include <gtest/gtest.h>

#include <set>

#include "base/random.h"
#include "plan/streams/stream_planner.h"

namespace fermata::plan {

// A few variants that get slower and mostly more accurate, clients on links and with objectives
// that let them use some of these. Batches of up to 4.
inline StreamProblem random_stream_problem(Random& random, uint32_t workers, uint32_t variants,
                                           uint32_t clients) {
  constexpr double kRates[] = {10, 15, 25, 7.3};
  StreamProblem p;
  p.workers = workers;
  p.seed = random.below(100);
  for (uint32_t v = 0; v < variants; ++v) {
    const double base = 10 + 5 * v + 5 * random.uniform(), more = 1 + 6 * random.uniform();
    const TableLatency latency{{{1, base}, {2, base + more}, {4, base + 3 * more}}};
    p.variants.push_back({"v" + std::to_string(v), 100 * (v + 1), random.below(8) / 8.0,
                          5 + 20 * random.uniform() * v, *LatencyTable::make(latency, 4)});
    p.current.resize(workers, 0);
    for (uint32_t& c : p.current) c = static_cast<uint32_t>(random.below(v + 1));
  }
  for (uint32_t c = 0; c < clients; ++c) {
    p.clients.push_back({"c" + std::to_string(c), kRates[random.below(4)],
                         30 + 100 * random.uniform(), 2 + 20 * random.uniform(),
                         5 * random.uniform(), random.below(4) == 0 ? random.uniform() : 0.0});
  }
  return p;
}

// The contract, word by word.
inline bool may_be_mapped(const StreamVariant& v, const StreamClient& c, uint32_t batch) {
  const double network_ms = v.request_kb * 8 / c.bandwidth_mbps + c.rtt_ms;
  const double batches = 1 + c.batches_ahead.value_or(1);
  return batches * (*v.latency)(batch).millis() <= c.slo_ms - network_ms - v.delay_ms &&
         v.service == c.service && v.accuracy >= c.min_accuracy &&
         v.request_kb * 8 * c.rate_rps / 1000 < c.bandwidth_mbps;
}

inline double throughput_rps(const StreamVariant& v, uint32_t batch) {
  return 1000.0 * batch / (*v.latency)(batch).millis();
}

inline void check_stream_plan(const StreamProblem& p, const StreamPlan& plan) {
  std::set<uint32_t> seen(plan.unmapped.begin(), plan.unmapped.end()), workers;
  double objective = 0;
  uint32_t served = 0;
  for (const StreamPlan::Worker& w : plan.workers) {
    ASSERT_LT(w.worker, p.workers);
    EXPECT_TRUE(workers.insert(w.worker).second);
    EXPECT_FALSE(w.clients.empty());
    const StreamVariant& v = p.variants[w.variant];
    double load = 0;
    for (const uint32_t c : w.clients) {
      EXPECT_TRUE(seen.insert(c).second);
      EXPECT_TRUE(may_be_mapped(v, p.clients[c], w.batch));
      load += p.clients[c].rate_rps;
      ++served;
    }
    EXPECT_LE(load, throughput_rps(v, w.batch) * (1 + 1e-9));
    for (uint32_t b = 1; b < w.batch; ++b) EXPECT_GT(load, throughput_rps(v, b));
    objective += load * v.accuracy;
  }
  EXPECT_EQ(seen.size(), p.clients.size());
  EXPECT_EQ(served, plan.served);
  EXPECT_NEAR(objective, plan.objective, 1e-9);
}

inline StreamPlan plan_by(StreamProblem problem, StreamSolver solver) {
  problem.solver = solver;
  StreamPlan plan = plan_streams(problem);
  check_stream_plan(problem, plan);
  return plan;
}

}  // namespace fermata::plan
