// How long one decision of `fermata plan ensemble` takes: by queries, models and deadlines, and
// beside the published table over quantised rewards by its step delta; and one decision of the
// default. Prints one JSON object;
// bench/ensemble.py draws it.
//   bench_ensemble [PROBLEMS]
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/document.h"
#include "base/random.h"
#include "ensemble_published.h"
#include "plan/ensemble/ensemble_planner.h"
#include "policy/ensemble/ensemble_lookahead.h"

namespace {

using namespace fermata;
using namespace fermata::plan;

// Slower models are better, and easy queries need few of them.
void draw_utilities(EnsembleQuery& query, size_t models, Random& random) {
  query.difficulty = random.uniform();
  query.utility.assign(size_t{1} << models, 0.0);
  for (Subset s = 1; s < query.utility.size(); ++s) {
    double wrong = 1;
    for (size_t k = 0; k < models; ++k) {
      const double rank = static_cast<double>(k + 1) / static_cast<double>(models);
      if (s >> k & 1) wrong *= query.difficulty * (1 - 0.5 * rank) + 0.05 * random.uniform();
    }
    query.utility[s] = 1 - wrong;
  }
}

// Tasks of 20 to 60 ms, deadlines up to `reach` times the slowest.
EnsembleProblem draw(size_t queries, size_t models, double reach, Random& random) {
  EnsembleProblem p;
  std::vector<double> latency(models);
  for (double& ms : latency) ms = 20 + 40 * random.uniform();
  std::sort(latency.begin(), latency.end());
  for (size_t k = 0; k < models; ++k) {
    p.models.push_back({"m" + std::to_string(k), Duration::from_millis(latency[k]),
                        Duration::from_millis(latency[k] * random.uniform())});
  }
  for (size_t i = 0; i < queries; ++i) {
    EnsembleQuery q = {"q" + std::to_string(i)};
    q.deadline = Duration::from_millis(latency.back() * (1 + (reach - 1) * random.uniform()));
    draw_utilities(q, models, random);
    p.queries.push_back(std::move(q));
  }
  return p;
}

Json percentiles(std::vector<double> micros) {
  std::sort(micros.begin(), micros.end());
  return {{"p50_us", micros[micros.size() / 2]},
          {"p99_us", micros[micros.size() * 99 / 100]},
          {"max_us", micros.back()}};
}

// Of the processor, as other work may have the core meanwhile.
double cpu_micros() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) * 1e-3;
}

// The fastest of three, the planner is warm.
double micros_of(EnsemblePlanner& planner, const EnsembleProblem& p) {
  double micros = INFINITY;
  for (int i = 0; i < 3; ++i) {
    const double start = cpu_micros();
    planner.plan(p, EnsemblePolicy::kDp);
    micros = std::min(micros, cpu_micros() - start);
  }
  return micros;
}

Json measure(size_t queries, size_t models, double reach, int problems) {
  Random random(queries * 1000 + models);
  EnsemblePlanner planner;
  std::vector<double> micros;
  double utility = 0, greedy = 0;
  for (int i = 0; i < problems; ++i) {
    const EnsembleProblem p = draw(queries, models, reach, random);
    micros.push_back(micros_of(planner, p));
    utility += planner.plan(p, EnsemblePolicy::kDp).utility / problems;
    greedy += planner.plan(p, EnsemblePolicy::kGreedyEdf).utility / problems;
  }
  Json out = {{"queries", queries}, {"models", models}, {"reach", reach}};
  out.update(percentiles(micros));
  out["utility"] = utility;
  out["greedy_edf"] = greedy;
  return out;
}

Json measure_published(size_t queries, double delta, int problems) {
  Random random(queries);
  bench::PublishedTable table;
  EnsemblePlanner planner;
  std::vector<double> micros, planner_micros;
  double utility = 0, best = 0, solutions = 0;
  for (int i = 0; i < problems; ++i) {
    const EnsembleProblem p = draw(queries, 3, 3, random);
    const double start = cpu_micros();
    table.plan(p, delta);
    micros.push_back(cpu_micros() - start);
    utility += table.utility / problems;
    solutions += static_cast<double>(table.solutions) / problems;
    planner_micros.push_back(micros_of(planner, p));
    best += planner.plan(p, EnsemblePolicy::kDp).utility / problems;
  }
  Json out = {{"queries", queries}, {"delta", delta}};
  out.update(percentiles(micros));
  out["utility"] = utility;
  out["solutions"] = solutions;
  out["best"] = best;
  out["planner_p50_us"] = percentiles(planner_micros)["p50_us"];
  return out;
}

constexpr size_t kBins = 10;  // of difficulty

// As the server's: 16 workers, queries that wait and as many that are expected. Every 16th decision
// tries all prices.
Json measure_default(size_t queries, size_t models, int problems) {
  Random random(queries * 1000 + models);
  policy::EnsembleLookahead planner;
  std::vector<double> all, few;
  for (int i = 0; i < problems; ++i) {
    const EnsembleProblem drawn = draw(queries, models, 3, random);
    PoolProblem p;
    for (int w = 0; w < 16; ++w) {
      p.workers.push_back(
          {std::to_string(w), 0, Time() + Duration::from_millis(40 * random.uniform())});
    }
    PoolProblem::Ensemble ensemble{.name = "e"};
    PoolProblem::Utilities utility;
    for (const BaseModel& model : drawn.models) {
      ensemble.models.push_back(static_cast<uint32_t>(p.models.size()));
      const double ms = model.latency.millis();
      p.models.push_back({model.name, *LatencyTable::make(LinearLatency{ms / 4, ms * 3 / 4}, 16)});
    }
    for (size_t q = 0; q < drawn.queries.size(); ++q) {
      const EnsembleQuery& query = drawn.queries[q];
      if (utility.size() < kBins) utility.push_back(query.utility);
      p.queries.push_back({.id = query.id,
                           .row = static_cast<uint32_t>(q % kBins),
                           .arrival = Time(),
                           .deadline = Time() + query.deadline,
                           .open = (Subset{1} << models) - 1});
    }
    std::sort(p.queries.begin(), p.queries.end(),
              [](const auto& a, const auto& b) { return a.deadline < b.deadline; });
    utility.push_back(utility.front());
    ensemble.utility = std::make_shared<const PoolProblem::Utilities>(std::move(utility));
    ensemble.company = 32;
    ensemble.spread = ensemble.slo = Duration::millis(100);
    p.ensembles.push_back(std::move(ensemble));
    for (const bool try_all : {true, false}) {
      p.try_all = try_all;
      double least = INFINITY;
      for (int again = 0; again < 3; ++again) {
        const double start = cpu_micros();
        planner.plan(p);
        least = std::min(least, cpu_micros() - start);
      }
      (try_all ? all : few).push_back(least);
      p.last_price = planner.last_price();
      p.last_style = planner.last_style();
    }
  }
  return {{"queries", queries},
          {"models", models},
          {"all", percentiles(all)},
          {"few", percentiles(few)}};
}

}  // namespace

int main(int argc, char** argv) {
  const int problems = argc > 1 ? std::atoi(argv[1]) : 200;
  if (problems < 1) return 2;
  Json sizes = Json::array(), published = Json::array();
  for (const double reach : {3.0, 20.0}) {
    for (const size_t models : {2, 3, 4, 6}) {
      for (const size_t queries : {8, 16, 32, 64}) {
        sizes.push_back(measure(queries, models, reach, problems));
      }
    }
  }
  for (const size_t queries : {8, 16, 32}) {
    for (const double delta : {0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001}) {
      published.push_back(measure_published(queries, delta, std::min(problems, 20)));
    }
  }
  Json by_default = Json::array();
  for (const auto& [queries, models] : {std::pair{16, 3}, {64, 3}, {16, 8}, {64, 6}, {64, 8}}) {
    by_default.push_back(measure_default(queries, models, problems));
  }
  std::cout << write_json({{"problems", problems},
                           {"sizes", sizes},
                           {"published", published},
                           {"default", by_default}});
}
