#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "plan/streams/stream_document.h"
#include "plan/streams/stream_exact.h"
#include "plan/streams/stream_mapping.h"
#include "plan/streams/stream_search.h"
#include "streams_fixture.h"

namespace fermata::plan {
namespace {

struct Worth {
  uint32_t served = 0;
  double objective = 0;
  auto operator<=>(const Worth&) const = default;
};

// Whether some batch size carries these clients.
bool carries(const StreamProblem& p, const StreamVariant& v, const std::vector<uint32_t>& clients) {
  for (uint32_t b = 1; b <= v.latency->max_batch(); ++b) {
    double load = 0;
    bool good = true;
    for (const uint32_t c : clients) {
      load += p.clients[c].rate_rps;
      good = good && may_be_mapped(v, p.clients[c], b);
    }
    if (good && load <= throughput_rps(v, b)) return true;
  }
  return false;
}

// Every choice of variants, and for each every mapping, counted up like numbers.
Worth brute_force(const StreamProblem& p) {
  Worth best;
  const auto variants = static_cast<uint32_t>(p.variants.size());
  const auto choices = static_cast<uint32_t>(std::pow(variants, p.workers));
  const auto mappings = static_cast<uint32_t>(std::pow(p.workers + 1, p.clients.size()));
  for (uint32_t choice = 0; choice < choices; ++choice) {
    for (uint32_t mapping = 0; mapping < mappings; ++mapping) {
      Worth worth;
      bool good = true;
      for (uint32_t w = 0, rest = choice; good && w < p.workers; ++w, rest /= variants) {
        std::vector<uint32_t> clients;
        for (uint32_t c = 0, m = mapping; c < p.clients.size(); ++c, m /= p.workers + 1) {
          if (m % (p.workers + 1) == w) clients.push_back(c);
        }
        const StreamVariant& v = p.variants[rest % variants];
        good = clients.empty() || carries(p, v, clients);
        worth.served += static_cast<uint32_t>(clients.size());
        for (const uint32_t c : clients) worth.objective += v.accuracy * p.clients[c].rate_rps;
      }
      if (good && worth > best) best = worth;
    }
  }
  return best;
}

TEST(Streams, ExactIsTheBestOfAllMappings) {
  Random random(3);
  int unserved = 0, annealing_is_worse = 0;
  for (int i = 0; i < 150; ++i) {
    const auto workers = static_cast<uint32_t>(1 + random.below(3));
    const StreamProblem p = random_stream_problem(random, workers, 3, workers == 3 ? 4 : 5);
    const Worth optimum = brute_force(p);
    const StreamPlan exact = plan_by(p, StreamSolver::kExact),
                     best = plan_by(p, StreamSolver::kBest),
                     annealed = plan_by(p, StreamSolver::kAnnealing);
    EXPECT_TRUE(exact.exact);
    EXPECT_EQ(exact.served, optimum.served);
    EXPECT_NEAR(exact.objective, optimum.objective, 1e-9);
    EXPECT_EQ(best.served, optimum.served);
    EXPECT_NEAR(best.objective, optimum.objective, 1e-9);
    EXPECT_LE(annealed.served, optimum.served);
    unserved += optimum.served < p.clients.size();
    annealing_is_worse +=
        annealed.served < optimum.served || annealed.objective < optimum.objective - 1e-9;
  }
  EXPECT_GT(unserved, 20);
  EXPECT_LT(unserved, 130);
  EXPECT_GT(annealing_is_worse, 5);
}

TEST(Streams, TheSearchComesNearTheOptimum) {
  Random random(4);
  double sum = 0, worst = 1;
  int problems = 0;
  for (int i = 0; i < 30; ++i) {
    const StreamProblem p = random_stream_problem(random, 3, 5, 12);
    const StreamTables tables(p);
    const StreamGroups groups =
        search_streams(tables, p.workers, StreamGroups(12, kNoGroup), 20'000, random);
    std::vector<std::vector<uint32_t>> members(p.workers);
    Worth found;
    for (uint32_t c = 0; c < groups.size(); ++c) {
      if (groups[c] != kNoGroup) members[groups[c]].push_back(c);
      found.served += groups[c] != kNoGroup;
    }
    for (const auto& clients : members) {
      const uint32_t rank = best_rank(tables, clients);
      ASSERT_LT(rank, tables.ranks());
      for (const uint32_t c : clients) found.objective += tables.rate(c) * tables.accuracy(rank);
    }
    const StreamPlan optimum = plan_by(p, StreamSolver::kExact);
    EXPECT_EQ(found.served, optimum.served);
    if (found.served != optimum.served || optimum.objective == 0) continue;
    const double ratio = found.objective / optimum.objective;
    sum += ratio;
    worst = std::min(worst, ratio);
    ++problems;
  }
  ASSERT_GT(problems, 20);
  EXPECT_GE(sum / problems, 0.999);
  EXPECT_GE(worst, 0.99);
}

// More clients than workers carry, of rates that have nothing in common.
TEST(Streams, TheSearchServesAsManyAsThereIsRoomFor) {
  Random random(14);
  double sum = 0;
  constexpr int kProblems = 30;
  for (int i = 0; i < kProblems; ++i) {
    const auto workers = static_cast<uint32_t>(1 + random.below(3));
    StreamProblem p = random_stream_problem(random, workers, 5, 15);
    for (StreamClient& c : p.clients) c.rate_rps = 2 + 40 * random.uniform();
    const StreamPlan optimum = plan_by(p, StreamSolver::kExact);
    ASSERT_TRUE(optimum.exact);
    p.max_steps = 1;  // too few for the optimum
    const StreamPlan found = plan_by(p, StreamSolver::kExact);
    ASSERT_FALSE(found.exact);
    EXPECT_EQ(found.served, optimum.served) << i;
    const double ratio = optimum.objective > 0 ? found.objective / optimum.objective : 1;
    EXPECT_GE(ratio, 0.95) << i;
    sum += ratio;
  }
  EXPECT_GE(sum / kProblems, 0.99);
}

// Whoever shares the workers: a client that sends less leaves nobody more without a worker, and
// alone it is served at any rate below one at which it is.
TEST(Streams, ALowerRateIsServedNoWorse) {
  int fewer_rates = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    Random random(seed);
    const auto workers = static_cast<uint32_t>(1 + random.below(3));
    const auto clients = static_cast<uint32_t>(1 + random.below(8));
    StreamProblem p = random_stream_problem(random, workers, 3, clients);
    const uint32_t served = plan_by(p, StreamSolver::kBest).served;
    StreamClient& client = p.clients[random.below(p.clients.size())];
    const double rate = client.rate_rps;
    StreamProblem alone = p;
    alone.clients = {client};
    const uint32_t served_alone = plan_by(alone, StreamSolver::kBest).served;
    for (const double share : {0.9, 0.5, 0.25, 0.01}) {
      client.rate_rps = alone.clients[0].rate_rps = rate * share;
      EXPECT_GE(plan_by(p, StreamSolver::kBest).served, served) << seed << " " << share;
      EXPECT_GE(plan_by(alone, StreamSolver::kBest).served, served_alone) << seed << " " << share;
      ++fewer_rates;
    }
  }
  EXPECT_EQ(fewer_rates, 600);
}

TEST(Streams, ManyWorkersAreNoWorseThanThePublishedAnnealing) {
  Random random(15);
  for (int i = 0; i < 6; ++i) {
    StreamProblem p = random_stream_problem(random, 16, 8, 96);
    for (StreamClient& c : p.clients) {
      c.rate_rps = 3 + 12 * random.uniform();
      c.slo_ms = 120 + 200 * random.uniform();
    }
    const StreamPlan annealed = plan_by(p, StreamSolver::kAnnealing),
                     best = plan_by(p, StreamSolver::kBest);
    EXPECT_GE(best.served, annealed.served);
    if (best.served > annealed.served) continue;
    EXPECT_GE(best.objective, annealed.objective - 1e-9);
  }
}

// Who waits for less than a batch may go with larger ones although the network leaves it less.
TEST(Streams, ClientsThatWaitForPartsOfBatchesAreNotPlannedBeyondWhatWorkersCarry) {
  Random random(12);
  for (int i = 0; i < 200; ++i) {
    StreamProblem p = random_stream_problem(random, 1 + i % 6, 6, 10 + i % 30);
    for (StreamClient& c : p.clients) c.batches_ahead = random.uniform();
    const StreamPlan annealed = plan_by(p, StreamSolver::kAnnealing);
    EXPECT_GE(plan_by(p, StreamSolver::kBest).served, annealed.served);
  }
}

// A variant serves the clients of its own service, whatever workers run besides.
TEST(Streams, ServicesThatShareWorkers) {
  Random random(13);
  for (int i = 0; i < 60; ++i) {
    StreamProblem p = random_stream_problem(random, 2, 4, 5);
    for (size_t v = 0; v < p.variants.size(); ++v) p.variants[v].service = v % 2 == 0 ? "a" : "b";
    for (StreamClient& c : p.clients) c.service = random.below(2) == 0 ? "a" : "b";
    const Worth optimum = brute_force(p);
    const StreamPlan exact = plan_by(p, StreamSolver::kExact);
    EXPECT_EQ(exact.served, optimum.served);
    EXPECT_NEAR(exact.objective, optimum.objective, 1e-9);
    EXPECT_LE(plan_by(p, StreamSolver::kAnnealing).served, optimum.served);
  }
}

TEST(Streams, MoreClientsThanTheOptimumIsSoughtFor) {
  Random random(5);
  for (int i = 0; i < 8; ++i) {
    const StreamProblem p = random_stream_problem(random, 6, 6, 40);
    const StreamPlan annealed = plan_by(p, StreamSolver::kAnnealing),
                     best = plan_by(p, StreamSolver::kBest),
                     exact = plan_by(p, StreamSolver::kExact);
    EXPECT_FALSE(best.exact);
    EXPECT_FALSE(exact.exact);
    EXPECT_GE(best.served, annealed.served);
    EXPECT_EQ(write_stream_plan(p, best), write_stream_plan(p, plan_by(p, StreamSolver::kBest)));
    if (best.served > annealed.served) continue;
    EXPECT_GE(best.objective, annealed.objective - 1e-9);
  }
}

// For one DNN alone Algorithm 1 finds the highest sum of rates.
// Rates whose sum, in decimals, is all that a worker can carry, whoever adds them in which order.
TEST(Streams, AWorkerMayBeFullToTheLastFrame) {
  Random random(7);
  for (int i = 0; i < 200; ++i) {
    StreamProblem problem;
    problem.workers = 1 + i % 2;
    problem.variants = {{"only", 100, 0.5, 1, *LatencyTable::make(TableLatency{{{1, 50.0}}}, 1)}};
    for (uint32_t w = 0; w < problem.workers; ++w) {
      uint64_t left = 200;  // tenths of a frame a second
      for (size_t more = random.below(i % 10 == 0 ? 20 : 5); more > 0; --more) {
        const uint64_t tenths = 1 + random.below(left / 3);
        problem.clients.push_back({"c", static_cast<double>(tenths) / 10, 500, 100, 0, 0, {}});
        left -= tenths;
      }
      problem.clients.push_back({"c", static_cast<double>(left) / 10, 500, 100, 0, 0, {}});
    }
    EXPECT_GT(plan_by(problem, StreamSolver::kBest).served, 0u);
    EXPECT_GT(plan_by(problem, StreamSolver::kAnnealing).served, 0u);
  }
}

TEST(Streams, TheMappingOfOneDnnIsOptimal) {
  Random random(6);
  for (int i = 0; i < 200; ++i) {
    StreamProblem p = random_stream_problem(random, 1, 1, 8);
    for (StreamClient& c : p.clients) c.rate_rps = 5.0 * static_cast<double>(1 + random.below(5));
    const StreamTables tables(p);
    StreamMapper mapper(tables);
    double mapped = 0, most = 0;
    const StreamGroups& groups = mapper.map({0});
    for (uint32_t c = 0; c < groups.size(); ++c) mapped += groups[c] == 0 ? tables.rate(c) : 0;
    for (uint32_t set = 0; set < 256; ++set) {
      std::vector<uint32_t> clients;
      double load = 0;
      for (uint32_t c = 0; c < 8; ++c) {
        if (set >> c & 1) clients.push_back(c);
        if (set >> c & 1) load += tables.rate(c);
      }
      if (load > most && carries(p, p.variants[0], clients)) most = load;
    }
    EXPECT_NEAR(mapped, most, 1e-9);
  }
}

// What it keeps of the mapping before changes no answer.
TEST(Streams, AMappingIsTheSameWhateverWasMappedBefore) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Random random(seed);
    const StreamProblem p = random_stream_problem(random, 4, 5, 12);
    const StreamTables tables(p);
    StreamMapper mapper(tables);
    std::vector<uint32_t> ranks(p.workers);
    for (int i = 0; i < 20; ++i) {
      ranks[random.below(ranks.size())] = static_cast<uint32_t>(random.below(tables.ranks()));
      std::sort(ranks.begin(), ranks.end());
      StreamMapper fresh(tables);
      const uint64_t before = mapper.steps();
      EXPECT_EQ(mapper.map(ranks), fresh.map(ranks));
      EXPECT_EQ(mapper.steps() - before, fresh.steps());
    }
  }
}

// 100 ms less 8 on the way: two runs of 40 ms fit, until the answer takes 13 ms more.
TEST(Streams, WhatAnAnswerTakesBesideItsWorkerIsNoTimeForIt) {
  StreamProblem p;
  p.variants.push_back({"one", 100, 0.5, 10, *LatencyTable::make(LinearLatency{0, 40}, 1)});
  p.clients.push_back({"client", 10, 100, 10});
  for (const auto& [delay_ms, served] : {std::pair(0.0, 1u), {12.0, 1u}, {13.0, 0u}}) {
    p.variants[0].delay_ms = delay_ms;
    EXPECT_EQ(plan_by(p, StreamSolver::kBest).served, served) << delay_ms;
    EXPECT_EQ(plan_by(p, StreamSolver::kAnnealing).served, served) << delay_ms;
  }
}

// Figure 8 of the paper: three clients of 40 at a batch of 3, or four of 60 at a batch of 2.
TEST(Streams, ThePapersExampleOfAMapping) {
  StreamProblem p;
  const TableLatency latency{{{1, 25}, {2, 100.0 / 3}, {3, 37.5}}};
  p.variants.push_back({"m", 128, 0.5, 0, *LatencyTable::make(latency, 3)});
  const auto add = [&](double rate, double budget_ms) {
    p.clients.push_back({"c" + std::to_string(p.clients.size() + 1), rate, budget_ms, 10});
  };
  add(10, 80), add(20, 80), add(10, 76), add(20, 70), add(10, 68);
  const StreamPlan plan = plan_by(p, StreamSolver::kAnnealing);
  ASSERT_EQ(plan.workers.size(), 1);
  EXPECT_EQ(plan.workers[0].batch, 2);
  EXPECT_EQ(plan.objective, 30);
  EXPECT_EQ(plan.served, 4);
}

TEST(Streams, WorkersGetWhatIsNearToWhatTheyHave) {
  StreamProblem p;
  p.workers = 3;
  for (uint32_t v = 0; v < 3; ++v) {
    p.variants.push_back({"v" + std::to_string(v), v + 1, 0.1 * (v + 1), 0,
                          *LatencyTable::make(TableLatency{{{1, 20.0 + 10 * v}}}, 1)});
  }
  p.clients = {{"a", 20, 130, 10}, {"b", 20, 70, 10}};  // the largest and the middle one
  p.current = {0, 2, 1};
  const StreamPlan plan = plan_by(p, StreamSolver::kBest);
  ASSERT_EQ(plan.workers.size(), 2);
  EXPECT_EQ(plan.workers[0].worker, 1);
  EXPECT_EQ(plan.workers[0].variant, 2);
  EXPECT_EQ(plan.workers[1].worker, 2);
  EXPECT_EQ(plan.workers[1].variant, 1);
}

constexpr std::string_view kContract = R"(
  {"workers": 4, "period_ms": 500,
   "variants": [{"name": "yolov4-128", "input_size": 128, "accuracy": 0.27,
                 "latency_ms": {"table": {"1": 23.0, "2": 26.0}}, "request_kb": 6.0}],
   "clients": [{"id": "c1", "rate_rps": 15, "slo_ms": 100, "bandwidth_mbps": 12.5, "rtt_ms": 5.0,
                "min_accuracy": 0.0}],
   "seed": 7, "solver": "best"})";

absl::StatusOr<StreamProblem> parsed_streams(std::string_view text) {
  auto document = Document::parse(text);
  if (!document.ok()) return document.status();
  return document->read(read_stream_problem);
}

TEST(StreamDocument, TheContractsExample) {
  const auto problem = parsed_streams(kContract);
  ASSERT_TRUE(problem.ok()) << problem.status();
  EXPECT_EQ(write_stream_plan(*problem, plan_streams(*problem)).dump(),
            R"({"objective":4.050000000000001,"mean_accuracy":0.2700000000000001,"served":1,)"
            R"("exact":true,"unmapped":[],"workers":[{"worker":0,"variant":"yolov4-128",)"
            R"("batch":1,"clients":["c1"]}]})");
}

TEST(StreamDocument, SaysWhichLatenciesWereRaised) {
  std::string text(kContract);
  const std::string_view table = "\"2\": 26.0";
  text.replace(text.find(table), table.size(), "\"2\": 19.0, \"4\": 30.0");
  const auto problem = parsed_streams(text);
  ASSERT_TRUE(problem.ok()) << problem.status();
  const Json result = write_stream_plan(*problem, plan_streams(*problem));
  EXPECT_EQ(result.at("raised_latencies"), Json({"yolov4-128"}));
  EXPECT_EQ(result.at("exact"), false);
  EXPECT_EQ(result.at("served"), 1);
}

TEST(StreamDocument, AProblemIsWrittenAsItReads) {
  Random random(8);
  for (int i = 0; i < 20; ++i) {
    StreamProblem p = random_stream_problem(random, 3, 4, 20);
    p.solver = static_cast<StreamSolver>(i % 3);
    const auto again = parsed_streams(write_json(write_stream_problem(p)));
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(write_stream_problem(*again).dump(), write_stream_problem(p).dump());
    EXPECT_EQ(write_stream_plan(*again, plan_streams(*again)).dump(),
              write_stream_plan(p, plan_streams(p)).dump());
  }
}

TEST(StreamDocument, WorkersThatAreNotNamedRunTheLeastAccurate) {
  std::string text(kContract);
  const std::string_view seed = "\"seed\": 7";
  const auto problem =
      parsed_streams(text.replace(text.find(seed), seed.size(), "\"current\": [\"yolov4-128\"]"));
  ASSERT_TRUE(problem.ok()) << problem.status();
  EXPECT_EQ(problem->current.size(), problem->workers);
}

TEST(StreamDocument, SaysWhatIsWrong) {
  const auto error = [](std::string_view what, std::string_view by) {
    std::string text(kContract);
    return std::string(
        parsed_streams(text.replace(text.find(what), what.size(), by)).status().message());
  };
  std::string more = "\"current\": [\"yolov4-128\"";
  for (int i = 0; i < 4; ++i) more += ", \"yolov4-128\"";
  EXPECT_EQ(error("\"seed\": 7", more + "]"),
            "$.current: a list of 5, expected at most one variant for each worker");
  EXPECT_EQ(error("\"seed\": 7", "\"current\": [\"v5\"]"),
            "$.current[0]: \"v5\", expected the name of a variant");
  EXPECT_EQ(error("12.5", "0"), "$.clients[0].bandwidth_mbps: 0, expected a positive number");
  EXPECT_EQ(error("\"best\"", "\"milp\""),
            "$.solver: \"milp\", expected one of best, exact, annealing");
}

}  // namespace
}  // namespace fermata::plan
