// How good and how quick the solvers of `fermata plan streams` are, on random clients drawn as in
// the paper (Jellyfish, section 7.6): rates of 10, 15 or 25 a second, objectives of 75, 100 or
// 150 ms, 7.5 to 50 Mbit/s. Prints one JSON object a size; `bench/streams.py plan` makes a record
// of them.
//   bench_streams_plan [PROBLEMS [SEED]]
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/check.h"
#include "base/document.h"
#include "base/random.h"
#include "plan/streams/stream_exact.h"
#include "plan/streams/stream_planner.h"
#include "plan/streams/stream_tables.h"

namespace {

using namespace fermata;
using namespace fermata::plan;

// Sixteen sizes of one detector, from 128 to 608 pixels a side.
std::vector<StreamVariant> zoo() {
  std::vector<StreamVariant> variants;
  for (uint32_t side = 128; side <= 608; side += 32) {
    const double area = side * side / 1e3;
    TableLatency latency;
    for (uint32_t b = 1; b <= 12; ++b) latency.points_ms[b] = 20 + b * (2.6 + 0.057 * area);
    variants.push_back({"side-" + std::to_string(side), side, 0.45 * (1 - std::exp(-0.006 * side)),
                        area * 3 / (4.5 + side / 160.0), *LatencyTable::make(latency, 12)});
  }
  return variants;
}

StreamProblem draw(uint32_t workers, uint32_t clients, double load, Random& random) {
  constexpr double kRates[] = {10, 15, 25}, kSlos[] = {75, 100, 150};
  StreamProblem p;
  p.workers = workers;
  p.variants = zoo();
  for (uint32_t c = 0; c < clients; ++c) {
    p.clients.push_back({"c" + std::to_string(c), kRates[random.below(3)] * load,
                         kSlos[random.below(3)], 7.5 + 42.5 * random.uniform(),
                         4 * random.uniform()});
  }
  return p;
}

// Of this thread: the machine may have other work.
double processor_millis() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

struct Solved {
  StreamPlan plan;
  double millis = 0;
};

Solved solve(StreamProblem problem, StreamSolver solver, std::optional<uint64_t> steps = {}) {
  problem.solver = solver;
  problem.max_steps = steps;
  const double start = processor_millis();
  StreamPlan plan = plan_streams(problem);
  return {std::move(plan), processor_millis() - start};
}

// By solver: how it does beside another one where both serve as many clients.
struct Account {
  double sum = 0, worst = 1, most_millis = 0, millis = 0;
  int count = 0, fewer = 0, more = 0, problems = 0;

  void add(const Solved& mine, const StreamPlan& other) {
    ++problems;
    millis += mine.millis;
    most_millis = std::max(most_millis, mine.millis);
    fewer += mine.plan.served < other.served;
    more += mine.plan.served > other.served;
    if (mine.plan.served != other.served || other.objective == 0) return;
    const double ratio = mine.plan.objective / other.objective;
    sum += ratio;
    worst = count == 0 ? ratio : std::min(worst, ratio);
    ++count;
  }
  Json json() const {
    return {{"ratio_mean", sum / std::max(count, 1)},
            {"ratio_worst", worst},
            {"problems", problems},
            {"compared", count},
            {"fewer_served", fewer},
            {"more_served", more},
            {"mean_ms", millis / std::max(problems, 1)},
            {"most_ms", most_millis}};
  }
};

Json measure(uint32_t workers, uint32_t clients, double load, int problems, uint64_t seed) {
  Random random(seed * 10'000'000 + static_cast<uint64_t>(load * 10) * 100'000 + workers * 1000 +
                clients);
  const bool small = clients <= 16;
  Account best, annealing, exact, search;
  for (int i = 0; i < problems; ++i) {
    const StreamProblem p = draw(workers, clients, load, random);
    const Solved annealed = solve(p, StreamSolver::kAnnealing),
                 mine = solve(p, StreamSolver::kBest);
    if (small) {
      const Solved optimum = solve(p, StreamSolver::kExact);
      FERMATA_CHECK(optimum.plan.exact);
      best.add(mine, optimum.plan);
      annealing.add(annealed, optimum.plan);
      exact.add(optimum, optimum.plan);
      // What `best` does with more clients than this, since no optimum is found in one step.
      search.add(solve(p, StreamSolver::kExact, 1), optimum.plan);
    } else {
      best.add(mine, annealed.plan);
      annealing.add(annealed, mine.plan);
    }
  }
  Json row = {{"workers", workers},
              {"clients", clients},
              {"load", load},
              {"problems", problems},
              {"beside", small ? "exact" : "each other"},
              {"best", best.json()},
              {"annealing", annealing.json()}};
  if (small) {
    row["exact"] = exact.json();
    row["search"] = search.json();
  }
  return row;
}

}  // namespace

int main(int argc, char** argv) {
  const int problems = argc > 1 ? std::atoi(argv[1]) : 20;
  const uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  for (const double load : {1.0, 1.6}) {
    for (const auto& [workers, clients] : std::vector<std::pair<uint32_t, uint32_t>>{
             {2, 8}, {2, 12}, {2, 16}, {3, 12}, {4, 16}, {4, 32}, {8, 64}, {16, 96}, {16, 160}}) {
      std::cout << measure(workers, clients, load, problems, seed).dump() << std::endl;
    }
  }
}
