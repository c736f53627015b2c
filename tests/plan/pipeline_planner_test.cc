#include "plan/pipeline/pipeline_planner.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/document.h"
#include "base/random.h"
#include "model/latency_at.h"

namespace fermata::plan {
namespace {

constexpr double kClose = 1e-9;

// Every choice of variant and batch size, by the contract's words alone.
class BruteForce {
 public:
  explicit BruteForce(const PipelineProblem& problem) : p_(problem) {}

  // The best objective, or none.
  std::optional<double> best() {
    choose(0, 0, 1, 0, 0);
    return best_;
  }

 private:
  double rank(const PipelineStage& stage, double accuracy) const {
    std::map<double, int> ranks;
    for (const auto& v : stage.variants) ranks[v.accuracy] = 0;
    if (ranks.size() == 1) return 1;
    int next = 0;
    for (auto& [_, r] : ranks) r = next++;
    return ranks[accuracy] / (static_cast<double>(ranks.size()) - 1);
  }

  double end(size_t s) const {  // stages are in an order that `after` keeps
    double start = 0;
    for (const uint32_t q : p_.stages[s].after) start = std::max(start, end(q));
    return start + ms_[s];
  }

  void choose(size_t s, double cost, double product, double ranks, double batches) {
    if (s == p_.stages.size()) return judge(cost, product, ranks, batches);
    const PipelineStage& stage = p_.stages[s];
    for (const auto& v : stage.variants) {
      for (const uint32_t b : p_.batch_sizes) {
        const auto ms = latency_ms(v.latency, b);
        if (!ms) continue;
        double replicas = 1;
        while (replicas * b / *ms * 1e3 < p_.rate_rps * stage.items * (1 - kClose)) ++replicas;
        if (replicas > p_.max_replicas) continue;
        ms_.push_back(*ms + (b - 1) / (p_.rate_rps * stage.items) * 1e3);
        choose(s + 1, cost + replicas * v.cost, product * v.accuracy,
               ranks + rank(stage, v.accuracy), batches + b);
        ms_.pop_back();
      }
    }
  }

  void judge(double cost, double product, double ranks, double batches) {
    for (size_t s = 0; s < ms_.size(); ++s) {
      if (end(s) > p_.sla_ms * (1 + kClose)) return;
    }
    if (cost > p_.max_cost * (1 + kClose)) return;
    const double accuracy = p_.accuracy == PipelineAccuracy::kPas ? product : ranks;
    const double objective = p_.alpha * accuracy - p_.beta * cost - p_.delta * batches;
    best_ = std::max(best_.value_or(objective), objective);
  }

  const PipelineProblem& p_;
  std::vector<double> ms_;
  std::optional<double> best_;
};

LatencyModel random_latency(Random& random, double fastest) {
  const double one = fastest * (1 + 4 * random.uniform());
  const double fixed = one * (0.2 + 0.7 * random.uniform());
  switch (random.below(3)) {
    case 0:
      return LinearLatency{one - fixed, fixed};
    case 1:
      return QuadraticLatency{(one - fixed) * 0.02, (one - fixed) * 0.98, fixed};
    default:
      return TableLatency{
          {{1, one}, {4, fixed + 4 * (one - fixed)}, {8, 2 * fixed + 7 * (one - fixed)}}};
  }
}

PipelineProblem random_problem(uint64_t seed, size_t stages, bool dag) {
  Random random(seed);
  PipelineProblem p;
  p.rate_rps = 1 + 39 * random.uniform();
  p.alpha = 1 + 40 * random.uniform();
  p.beta = random.uniform();
  p.delta = 1e-6;
  p.accuracy = random.below(2) ? PipelineAccuracy::kPas : PipelineAccuracy::kPasPrime;
  p.batch_sizes = {1, 2, 4, 8, 16};
  if (random.below(3) == 0) p.max_cost = static_cast<double>(stages) * (2 + random.below(20));
  if (random.below(3) == 0) p.max_replicas = static_cast<double>(1 + random.below(10));
  double sum = 0;
  for (size_t s = 0; s < stages; ++s) {
    PipelineStage& stage = p.stages.emplace_back();
    stage.name = "s" + std::to_string(s);
    if (random.below(4) == 0) stage.items = 0.5 + 2 * random.uniform();
    const double fastest = 10 + 200 * random.uniform();
    for (size_t v = 0; v < 1 + random.below(4); ++v) {
      stage.variants.push_back({.name = "v" + std::to_string(v),
                                .accuracy = 0.5 + 0.1 * static_cast<double>(random.below(5)),
                                .cost = static_cast<double>(1 + random.below(8)),
                                .latency = random_latency(random, fastest)});
    }
    sum += fastest;
    for (uint32_t q = 0; q < s; ++q) {
      if (dag ? random.below(2) == 0 : q + 1 == s) stage.after.push_back(q);
    }
  }
  p.sla_ms = sum * (1 + 6 * random.uniform());
  return p;
}

void expect_optimal(const PipelineProblem& problem) {
  const std::optional<double> best = BruteForce(problem).best();
  const PipelinePlan plan = plan_pipeline(problem);
  ASSERT_EQ(plan.feasible, best.has_value());
  EXPECT_TRUE(plan.exact);
  if (best) {
    EXPECT_NEAR(plan.objective, *best, kClose * (1 + std::abs(*best)));
    EXPECT_EQ(plan.stages.size(), problem.stages.size());
  } else {
    EXPECT_NE(plan.binding, PipelineLimit::kNone);
    EXPECT_FALSE(plan.reason.empty());
  }
}

TEST(PipelinePlanner, FindsTheOptimumOfRandomChains) {
  int feasible = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    const PipelineProblem problem = random_problem(seed, 1 + seed % 4, false);
    expect_optimal(problem);
    feasible += plan_pipeline(problem).feasible;
  }
  EXPECT_GT(feasible, 100);
  EXPECT_LT(feasible, 290);
}

TEST(PipelinePlanner, FindsTheOptimumOfRandomDags) {
  for (uint64_t seed = 1000; seed < 1250; ++seed) {
    SCOPED_TRACE(seed);
    expect_optimal(random_problem(seed, 2 + seed % 3, true));
  }
}

PipelineStage stage_of(std::string name, std::vector<PipelineVariant> variants) {
  PipelineStage stage;
  stage.name = std::move(name);
  stage.variants = std::move(variants);
  return stage;
}

// Table 3 and section 2.3: at 20 requests a second and 600 ms the cheap pair needs 2 + 2 cores.
PipelineProblem video() {
  PipelineProblem p;
  p.rate_rps = 20;
  p.sla_ms = 600;
  p.alpha = 2;
  p.beta = 1;
  p.delta = 1e-6;
  p.stages = {stage_of("detect", {{"yolov5n", 0.457, 1, TableLatency{{{1, 80}, {8, 481}}}},
                                  {"yolov5m", 0.641, 2, TableLatency{{{1, 347}, {8, 1654}}}}}),
              stage_of("classify", {{"resnet18", 0.6975, 1, TableLatency{{{1, 73}, {8, 383}}}},
                                    {"resnet50", 0.7613, 1, TableLatency{{{1, 136}, {8, 833}}}}})};
  p.stages[1].after = {0};
  return p;
}

TEST(PipelinePlanner, ThePapersExample) {
  const PipelinePlan cheap = plan_pipeline(video());
  EXPECT_EQ(cheap.stages[0].variant, 0u);
  EXPECT_EQ(cheap.stages[0].replicas, 2);  // 20 * 0.080 = 1.6
  EXPECT_EQ(cheap.stages[1].variant, 0u);
  EXPECT_EQ(cheap.cost, 4);
  EXPECT_DOUBLE_EQ(cheap.latency_ms, 153);
  PipelineProblem accurate = video();
  accurate.alpha = 1000;
  const PipelinePlan dear = plan_pipeline(accurate);
  EXPECT_EQ(dear.cost, 7 * 2 + 3);  // 20 * 0.347 = 6.9 replicas of 2 cores, and 20 * 0.136 = 2.7
  EXPECT_DOUBLE_EQ(dear.latency_ms, 483);
  accurate.sla_ms = 450;  // "will eliminate the variant B2"
  EXPECT_EQ(plan_pipeline(accurate).stages[1].variant, 0u);
}

TEST(PipelinePlanner, ResolvesTheBatchPenalty) {
  PipelineProblem p = video();
  p.rate_rps = 12;  // one replica each whether batches are 1 or larger
  p.sla_ms = 6000;
  p.alpha = 1e4;  // a million batches weigh as much as 1e-4 of accuracy
  for (PipelineStage& stage : p.stages) stage.variants.resize(1);
  const PipelinePlan plan = plan_pipeline(p);
  EXPECT_EQ(plan.stages[0].batch, 1u);
  EXPECT_EQ(plan.stages[1].batch, 1u);
}

TEST(PipelinePlanner, ABoundThatIsMetExactlyHolds) {
  PipelineProblem p = video();
  p.rate_rps = 12.5;  // 80 ms: exactly one replica
  p.sla_ms = 153;     // 80 + 73: exactly
  const PipelinePlan plan = plan_pipeline(p);
  EXPECT_TRUE(plan.feasible);
  EXPECT_EQ(plan.stages[0].replicas, 1);
}

TEST(PipelinePlanner, NamesTheLimitThatCannotBeKept) {
  const auto binding = [](auto change) {
    PipelineProblem p = video();
    change(p);
    const PipelinePlan plan = plan_pipeline(p);
    EXPECT_FALSE(plan.feasible);
    EXPECT_TRUE(plan.exact);
    return plan.binding;
  };
  EXPECT_EQ(binding([](auto& p) { p.sla_ms = 152; }), PipelineLimit::kSla);
  EXPECT_EQ(binding([](auto& p) { p.max_cost = 3; }), PipelineLimit::kCost);
  EXPECT_EQ(binding([](auto& p) { p.max_replicas = 1; }), PipelineLimit::kReplicas);
  EXPECT_EQ(binding([](auto& p) { p.batch_sizes = {16}; }), PipelineLimit::kBatchSizes);
}

// A count of replicas is one that any code can hold, or nothing keeps the limits.
TEST(PipelinePlanner, NoStageHasMoreReplicasThanCanBeCounted) {
  PipelineProblem p{.rate_rps = 1e9, .sla_ms = 1e9, .alpha = 1};
  p.stages = {{.name = "s", .items = 1e6, .variants = {{"v", 1, 1, TableLatency{{{1, 1e8}}}}}}};
  p.batch_sizes = {1};
  EXPECT_EQ(plan_pipeline(p).binding, PipelineLimit::kReplicas);
  p.stages[0].items = 9e-6;
  const PipelinePlan plan = plan_pipeline(p);
  ASSERT_TRUE(plan.feasible) << plan.reason;
  EXPECT_EQ(plan.stages[0].replicas, 9e8);
}

// Whether something keeps the limits once one of them is gone.
bool helps_to_lift(PipelineProblem p, PipelineLimit limit) {
  if (limit == PipelineLimit::kSla) p.sla_ms = 1e12;
  if (limit == PipelineLimit::kCost) p.max_cost = 1e12;
  if (limit == PipelineLimit::kReplicas) p.max_replicas = 1e12;
  return BruteForce(p).best().has_value();
}

TEST(PipelinePlanner, TheLimitThatItNamesBinds) {
  int infeasible = 0, several = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    PipelineProblem p = random_problem(seed, 1 + seed % 3, seed % 2 == 0);
    p.sla_ms /= 3;
    if (seed % 2 == 0) p.max_cost = 6;
    const PipelinePlan plan = plan_pipeline(p);
    if (plan.feasible) continue;
    ++infeasible;
    if (helps_to_lift(p, plan.binding)) continue;
    ++several;
    for (const auto limit : {PipelineLimit::kSla, PipelineLimit::kCost, PipelineLimit::kReplicas}) {
      EXPECT_FALSE(helps_to_lift(p, limit)) << seed << ": " << plan.reason;
    }
    EXPECT_NE(plan.reason.find("other limits"), std::string::npos) << plan.reason;
  }
  EXPECT_GT(infeasible, 100);
  EXPECT_GT(several, 10);
}

// A core runs one item in 20 ms or eight in 25, which is 320 a second and no more.
TEST(PipelinePlanner, WhereTheRateIsTooHighItCarriesMost) {
  PipelineProblem p{.rate_rps = 330, .sla_ms = 500, .alpha = 1, .beta = 1, .max_cost = 1};
  p.batch_sizes = {1, 8};
  p.stages = {{.name = "a", .variants = {{"v", 1, 1, TableLatency{{{1, 20}, {8, 25}}}}}}};
  EXPECT_FALSE(plan_pipeline(p).feasible);
  const PipelinePlan most = plan_most(p);
  ASSERT_TRUE(most.feasible);
  EXPECT_EQ(most.stages[0].batch, 8u);
  EXPECT_EQ(most.stages[0].replicas, 1);
  p.sla_ms = 10;
  EXPECT_FALSE(plan_most(p).feasible);
}

// A replica answers 10 a second one by one, or 40 in eights, which come together within 100 ms from
// 70 a second on: two replicas carry up to 20, and 70 to 80.
TEST(PipelinePlanner, WhatCannotBeKeptMayLieBelowWhatCan) {
  PipelineProblem p{.rate_rps = 200, .sla_ms = 300, .alpha = 1, .beta = 1, .max_replicas = 2};
  p.batch_sizes = {1, 8};
  p.stages = {{.name = "a", .variants = {{"v", 1, 1, TableLatency{{{1, 100}, {8, 200}}}}}}};
  PipelineProblem between = p;
  between.rate_rps = 50;
  EXPECT_FALSE(plan_pipeline(between).feasible);
  const PipelinePlan most = plan_most(p);
  ASSERT_TRUE(most.feasible);
  EXPECT_EQ(most.stages[0].batch, 8u);
  EXPECT_DOUBLE_EQ(most.latency_ms, 200 + 7 / 80.0 * 1e3);
  p.max_replicas = 1;  // 40 a second are too few for eights
  EXPECT_EQ(plan_most(p).stages.at(0).batch, 1u);
}

// All rates at which some replica would be full, from the highest on.
TEST(PipelinePlanner, CarriesMostOfRandomProblems) {
  int above_a_gap = 0, found = 0;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(seed);
    PipelineProblem p = random_problem(seed, 1 + seed % 3, seed % 2 == 0);
    p.batch_sizes = {1, 8};
    p.max_replicas = 3;
    p.sla_ms *= 2;
    p.rate_rps = 300;
    if (plan_pipeline(p).feasible) continue;
    std::set<double> rates;
    for (const PipelineStage& stage : p.stages) {
      for (const PipelineVariant& v : stage.variants) {
        for (const uint32_t b : p.batch_sizes) {
          const auto ms = latency_ms(v.latency, b);
          for (int k = 1; ms && k <= 3; ++k) rates.insert(k * b / (*ms * stage.items) * 1e3);
        }
      }
    }
    std::optional<PipelinePlan> most;
    bool gap = false;
    PipelineProblem at = p;
    for (auto rate = rates.rbegin(); rate != rates.rend(); ++rate) {
      if (*rate >= p.rate_rps) continue;
      at.rate_rps = *rate;
      PipelinePlan plan = plan_pipeline(at);
      gap = gap || (most && !plan.feasible);
      if (plan.feasible && !most) most = std::move(plan);
    }
    const PipelinePlan plan = plan_most(p);
    ASSERT_EQ(plan.feasible, most.has_value());
    if (!most) continue;
    EXPECT_DOUBLE_EQ(plan.latency_ms, most->latency_ms);
    EXPECT_DOUBLE_EQ(plan.cost, most->cost);
    above_a_gap += gap;
    ++found;
  }
  EXPECT_GT(found, 50);
  EXPECT_GT(above_a_gap, 5);
}

// A chain of twelve stages.
PipelineProblem long_problem() {
  PipelineProblem p = random_problem(7, 4, false);
  for (uint64_t seed = 2; p.stages.size() < 12; ++seed) {
    PipelineStage more = random_problem(seed, 1, false).stages[0];
    more.after = {static_cast<uint32_t>(p.stages.size()) - 1};
    p.stages.push_back(more);
  }
  p.max_cost = p.max_replicas = std::numeric_limits<double>::infinity();
  p.sla_ms = 4000;
  return p;
}

TEST(PipelinePlanner, CarriesMostWithinTheStepsOfOneProblem) {
  PipelineProblem p = long_problem();
  p.rate_rps = 300;
  p.max_cost = 100;
  EXPECT_GT(plan_most(p).steps, 10'000u);  // of many problems
  p.max_steps = 2000;
  const PipelinePlan most = plan_most(p);
  EXPECT_TRUE(most.feasible);
  EXPECT_LT(most.steps, 2100u);
}

TEST(PipelinePlanner, WithoutEnoughStepsSaysHowFarItMayBe) {
  PipelineProblem p = long_problem();
  p.max_steps = 1;
  const PipelinePlan rough = plan_pipeline(p);
  p.max_steps = PipelineProblem::kDefaultSteps;
  const PipelinePlan best = plan_pipeline(p);
  ASSERT_TRUE(best.exact);
  ASSERT_TRUE(rough.feasible);
  EXPECT_FALSE(rough.exact);
  EXPECT_LE(rough.objective, best.objective + kClose);
  EXPECT_GE(rough.objective + rough.gap, best.objective - kClose);
}

// The five pipelines of the paper at 1 to 40 requests a second, where the data are.
std::vector<std::vector<std::string>> table(const std::filesystem::path& file) {
  std::vector<std::vector<std::string>> rows;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::stringstream cells(line);
    rows.emplace_back();
    for (std::string cell; std::getline(cells, cell, ',');) rows.back().push_back(cell);
  }
  return rows;
}

PipelineProblem published(const std::filesystem::path& folder, const Json& pipeline) {
  PipelineProblem p;
  p.sla_ms = pipeline["sla_s"].get<double>() * 1e3;
  p.alpha = pipeline["alpha"];
  p.beta = pipeline["beta"];
  p.delta = pipeline["delta"];
  p.max_replicas = 100;
  std::map<std::string, double> accuracy, cores;
  for (const auto& row : table(folder / "variants.csv")) {
    if (row[0] == "task") continue;
    accuracy[row[0] + row[1]] = std::stod(row[5]) / 100;
    cores[row[0] + row[1]] = std::stod(row[4]);
  }
  std::map<std::string, TableLatency> latency;
  for (const auto& row : table(folder / "profiles.csv")) {
    if (row[0] == "task") continue;
    latency[row[0] + row[1]].points_ms[static_cast<uint32_t>(std::stoul(row[3]))] =
        std::stod(row[4]) * 1e3;
  }
  for (const std::string task : pipeline["stages"]) {
    PipelineStage& stage = p.stages.emplace_back();
    stage.name = task;
    if (p.stages.size() > 1) stage.after = {static_cast<uint32_t>(p.stages.size()) - 2};
    for (const std::string name : pipeline["variants"][task]) {
      stage.variants.push_back(
          {name, accuracy.at(task + name), cores.at(task + name), latency.at(task + name)});
    }
  }
  return p;
}

TEST(PipelinePlanner, FindsTheOptimumOfThePublishedPipelines) {
  const char* folder = std::getenv("FERMATA_IPA_DATA");
  if (!folder)
    GTEST_SKIP() << "FERMATA_IPA_DATA does not name the folder of the published profiles";
  std::ifstream in(std::filesystem::path(folder) / "pipelines.json");
  const Json document = Json::parse(in);
  for (const auto& [name, pipeline] : document["pipelines"].items()) {
    PipelineProblem problem = published(folder, pipeline);
    for (const auto accuracy : {PipelineAccuracy::kPas, PipelineAccuracy::kPasPrime}) {
      problem.accuracy = accuracy;
      for (int rate = 1; rate <= 40; ++rate) {
        SCOPED_TRACE(name + " at " + std::to_string(rate));
        problem.rate_rps = rate;
        expect_optimal(problem);
      }
    }
  }
}

}  // namespace
}  // namespace fermata::plan
