#include "plan/pipeline/pipeline_document.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/status.h"
#include "plan/pipeline/pipeline_planner.h"

namespace fermata::plan {
namespace {

constexpr std::string_view kPipelineExample = R"(
  {"rate_rps": 20.0, "sla_ms": 600.0, "alpha": 2.0, "beta": 1.0, "delta": 1e-6, "accuracy": "pas",
   "batch_sizes": [1, 2, 4, 8, 16, 32, 64], "max_replicas": 64, "max_cost": 500,
   "stages": [{"name": "detect", "variants": [
     {"name": "yolov5n", "accuracy": 0.457, "cost": 1, "latency_ms": {"table": {"1": 80, "8": 481}}}]}]})";

// A diamond: b and c after a, d after both.
constexpr std::string_view kDiamond = R"(
  {"rate_rps": 10, "alpha": 1, "beta": 0.1, "accuracy": "pas-prime", "batch_sizes": [1, 4], "stages": [
    {"name": "d", "after": ["b", "c"], "variants": [{"name": "m", "accuracy": 1, "latency_ms": {"alpha": 5, "beta": 5}}]},
    {"name": "b", "after": ["a"], "variants": [{"name": "m", "accuracy": 1, "latency_ms": {"alpha": 20, "beta": 10}}]},
    {"name": "c", "after": ["a"], "items": 2, "variants": [
      {"name": "m", "accuracy": 0.5, "latency_ms": {"quadratic": [0, 10, 10]}},
      {"name": "n", "accuracy": 0.6, "cost": 2, "latency_ms": {"quadratic": [0, 20, 20]}}]},
    {"name": "a", "variants": [{"name": "m", "accuracy": 1, "latency_ms": {"alpha": 5, "beta": 5}}]}]})";

absl::StatusOr<PipelineProblem> parsed_pipeline(std::string_view text) {
  ASSIGN_OR_RETURN(Document document, Document::parse(text));
  return document.read(read_pipeline);
}

std::string replaced(std::string_view in, std::string_view what, std::string_view by) {
  std::string text(in);
  return text.replace(text.find(what), what.size(), by);
}

std::string answer(const PipelineProblem& problem) {
  return write_pipeline_plan(problem, plan_pipeline(problem)).dump();
}

TEST(PipelineDocument, TheContractsExample) {
  const auto problem = parsed_pipeline(kPipelineExample);
  ASSERT_TRUE(problem.ok()) << problem.status();
  EXPECT_EQ(answer(*problem),
            R"({"feasible":true,"objective":-1.0860009999999998,"accuracy":0.457,"cost":2.0,)"
            R"("latency_ms":80.0,"exact":true,"stages":[{"name":"detect","variant":"yolov5n",)"
            R"("batch":1,"replicas":2,"latency_ms":80.0,"queueing_ms":0.0}]})");
}

TEST(PipelineDocument, ADiamondIsPlannedOnItsLongestPath) {
  const auto problem = parsed_pipeline(kDiamond);
  ASSERT_TRUE(problem.ok()) << problem.status();
  // 5 times the mean latency of a batch of one: a 50, b and c 150, d 50.
  EXPECT_DOUBLE_EQ(problem->sla_ms, 250);
  const PipelinePlan plan = plan_pipeline(*problem);
  EXPECT_DOUBLE_EQ(plan.latency_ms, 10 + 40 + 10);
  EXPECT_EQ(plan.stages[2].variant, 1u);  // one more in rank, at one core more
  EXPECT_DOUBLE_EQ(plan.accuracy, 4);
}

TEST(PipelineDocument, AProblemIsWrittenAsItReads) {
  for (const std::string_view text : {kPipelineExample, kDiamond}) {
    PipelineProblem problem = *parsed_pipeline(text);
    problem.rate_rps = 10.0 / 3;
    problem.max_steps = 12'345;
    const auto again = parsed_pipeline(write_json(write_pipeline_problem(problem)));
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(write_pipeline_problem(*again).dump(), write_pipeline_problem(problem).dump());
    EXPECT_EQ(answer(*again), answer(problem));
    EXPECT_EQ(again->rate_rps, 10.0 / 3);
    EXPECT_EQ(again->max_steps, 12'345u);
  }
}

// The most of all that a document may ask for.
TEST(PipelineDocument, MoreReplicasThanCanBeCountedAreInfeasible) {
  const auto problem = parsed_pipeline(R"(
    {"rate_rps": 1e9, "sla_ms": 1e9, "alpha": 1, "beta": 1, "batch_sizes": [1], "stages": [
      {"name": "a", "items": 1e6, "variants": [{"name": "m", "accuracy": 1, "latency_ms": {"table": {"1": 1e8}}}]}]})");
  ASSERT_TRUE(problem.ok()) << problem.status();
  const Json result = write_pipeline_plan(*problem, plan_pipeline(*problem));
  EXPECT_FALSE(result.at("feasible").get<bool>());
  EXPECT_EQ(result.at("binding"), "max_replicas");
  EXPECT_NE(result.at("reason").get<std::string>().find("of at most 1000000000"),
            std::string::npos);
  EXPECT_FALSE(result.contains("stages"));
}

TEST(PipelineDocument, InfeasibleNamesTheLimit) {
  const auto problem = parsed_pipeline(replaced(kPipelineExample, "600.0", "79"));
  EXPECT_EQ(answer(*problem), R"({"feasible":false,"binding":"sla_ms",)"
                              R"("reason":"the fastest path takes 80 ms","exact":true})");
}

TEST(PipelineDocument, SaysWhatIsWrong) {
  const std::tuple<std::string_view, std::string, std::string, std::string> cases[] = {
      {kPipelineExample, "20.0", "0", "$.rate_rps: 0, expected a positive number"},
      {kPipelineExample, "600.0", "-1", "$.sla_ms: -1, expected a positive number"},
      {kPipelineExample, "\"pas\"", "\"pass\"",
       "$.accuracy: \"pass\", expected one of pas, pas-prime"},
      {kPipelineExample, "[1, 2,", "[1, 1,", "$.batch_sizes[1]: 1, expected each batch size once"},
      {kPipelineExample, "0.457", "45.7",
       "$.stages[0].variants[0].accuracy: 45.7, expected a number from 0 to 1"},
      {kPipelineExample, R"({"table": {"1": 80, "8": 481}})", R"({"quadratic": [-1, 10, 0]})",
       "$.stages[0].variants[0].latency_ms: a map, expected a latency above 0 and up to 100000000 "
       "for a batch of 16, not -96"},
      {kPipelineExample, "\"max_cost\"", "\"most_cost\"",
       "$.most_cost: 500, expected no such field, but rate_rps, filling_rps, sla_ms, alpha, beta, "
       "delta, accuracy, batch_sizes, max_replicas, max_cost, max_steps, stages; did you mean "
       "max_cost?"},
      {kDiamond, "\"after\": [\"b\", \"c\"]", "\"after\": [\"b\", \"b\"]",
       "$.stages[0].after[1]: \"b\", expected a name of its own"},
      {kDiamond, "\"after\": [\"b\", \"c\"]", "\"after\": [\"b\", \"e\"]",
       "$.stages[0].after[1]: \"e\", expected the name of a stage"},
      {kDiamond, "{\"name\": \"a\",", "{\"name\": \"a\", \"after\": [\"d\"],",
       "$.stages[0]: a map, expected a stage that does not come after itself"},
      {kDiamond, "\"items\": 2", "\"items\": 0",
       "$.stages[2].items: 0, expected a number from 1e-06 to 1000000"},
      {R"({"rate_rps": 1, "alpha": 1, "beta": 1, "stages": []})", "1", "1",
       "$.stages: a list of 0, expected a list of at least 1"},
      {R"({"rate_rps": 1, "alpha": 1, "beta": 1, "stages": [{"name": "a", "variants": []}]})", "1",
       "1", "$.stages[0].variants: a list of 0, expected a list of at least 1"},
  };
  for (const auto& [text, what, by, error] : cases) {
    EXPECT_EQ(message(parsed_pipeline(replaced(text, what, by)).status()), error);
  }
}

}  // namespace
}  // namespace fermata::plan
