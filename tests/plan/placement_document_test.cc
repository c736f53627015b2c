#include "plan/placement/placement_document.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/status.h"

namespace fermata::plan {
namespace {

constexpr std::string_view kExample = R"(
  {"subclusters": 2, "max_rate_rps": 50000, "memory_mb": 80000, "weight": 1.0,
   "max_change_cost": 4.0, "seed": 1,
   "models": [{"name": "m1", "rate_rps": 120.0, "static_mb": 90.0, "dynamic_mb": 2100.0,
               "change_cost": 1.0, "current": 0},
              {"name": "m2", "rate_rps": 80.0, "static_mb": 110.0, "dynamic_mb": 900.0,
               "change_cost": 1.0, "current": null}]})";

absl::StatusOr<PlacementProblem> parsed(std::string_view text) {
  ASSIGN_OR_RETURN(Document document, Document::parse(text));
  return document.read(read_placement);
}

std::string replaced(std::string_view what, std::string_view by) {
  std::string text(kExample);
  return text.replace(text.find(what), what.size(), by);
}

TEST(PlacementDocument, TheContractsExample) {
  const auto problem = parsed(kExample);
  ASSERT_TRUE(problem.ok()) << problem.status();
  EXPECT_EQ(write_placement(*problem, place(*problem)).dump(),
            R"({"feasible":true,"objective":0.30000000000000004,"rate_spread":20.0,)"
            R"("memory_spread":10.0,"rate_imbalance":0.4,"memory_imbalance":0.2,)"
            R"("change_cost":1.0,"exact":true,"assignment":{"m1":0,"m2":1}})");
}

TEST(PlacementDocument, AProblemIsWrittenAsItReads) {
  PlacementProblem problem = *parsed(kExample);
  problem.models[0].rate_rps = 1.0 / 3;
  problem.max_steps = 12'345;
  for (double bound : {0.1, std::numeric_limits<double>::infinity()}) {
    problem.max_change_cost = problem.max_scheduler_rate_rps = bound;
    const auto again = parsed(write_json(write_placement_problem(problem)));
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(write_placement_problem(*again).dump(), write_placement_problem(problem).dump());
    EXPECT_EQ(again->models[0].rate_rps, 1.0 / 3);
    EXPECT_EQ(again->max_change_cost, bound);
    EXPECT_EQ(again->max_steps, 12'345u);
    EXPECT_EQ(again->models[1].current, std::nullopt);
  }
}

TEST(PlacementDocument, InfeasibleNamesTheLimit) {
  const auto problem = parsed(replaced("80000", "2000"));
  EXPECT_EQ(write_placement(*problem, place(*problem)).dump(),
            R"({"feasible":false,"binding":"memory_mb",)"
            R"("reason":"m1 alone needs 2190 MiB of 2000","exact":true})");
}

TEST(PlacementDocument, SaysWhatIsWrong) {
  const std::pair<std::string, std::string> cases[] = {
      {replaced("\"seed\": 1", "\"sede\": 1"),
       "$.sede: 1, expected no such field, but subclusters, max_rate_rps, memory_mb, weight, "
       "max_change_cost, schedulers, max_scheduler_rate_rps, seed, max_steps, models; did you mean "
       "seed?"},
      {replaced("\"m2\"", "\"m1\""), "$.models[1].name: \"m1\", expected a name of its own"},
      {replaced("\"m2\"", "\"\""), "$.models[1].name: \"\", expected a non-empty string"},
      {replaced("\"current\": 0", "\"current\": 2"),
       "$.models[0].current: 2, expected a whole number from 0 to 1"},
      {replaced("120.0", "-1"), "$.models[0].rate_rps: -1, expected a non-negative number"},
      {replaced("\"subclusters\": 2", "\"subclusters\": 0"),
       "$.subclusters: 0, expected a whole number from 1 to 10000"},
      {replaced("\"seed\": 1", "\"schedulers\": 3"),
       "$.schedulers: 3, expected a divisor of subclusters"},
      {R"({"subclusters": 1, "max_rate_rps": 1, "memory_mb": 1, "models": []})",
       "$.models: a list of 0, expected a list of at least 1"},
  };
  for (const auto& [text, error] : cases) EXPECT_EQ(message(parsed(text).status()), error);
}

}  // namespace
}  // namespace fermata::plan
