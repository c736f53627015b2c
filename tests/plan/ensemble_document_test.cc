#include "plan/ensemble/ensemble_document.h"

#include <nlohmann/json.hpp>

#include "base/status.h"
#include "plan/ensemble_fixture.h"

namespace fermata::plan {
namespace {

constexpr std::string_view kEnsembleExample = R"(
  {"models": [{"name": "a", "latency_ms": 30.0, "busy_ms": 12.0},
              {"name": "b", "latency_ms": 45.0, "busy_ms": 0.0}],
   "queries": [{"id": "q1", "deadline_ms": 105.0, "utility": {"a": 0.81, "b": 0.86, "a+b": 0.97}}],
   "delta": 0.01, "policy": "dp"})";

absl::StatusOr<EnsembleTask> parsed_ensemble(std::string_view text) {
  ASSIGN_OR_RETURN(Document document, Document::parse(text));
  return document.read(read_ensemble_task);
}

std::string planned(const EnsembleProblem& problem, EnsemblePolicy policy) {
  EnsemblePlanner planner;
  return write_ensemble_plan({problem, policy}, planner.plan(problem, policy)).dump();
}

std::string replaced_in_ensemble(std::string_view what, std::string_view by) {
  std::string text(kEnsembleExample);
  return text.replace(text.find(what), what.size(), by);
}

// Both models are on time: 12 + 30 = 42, and 45.
TEST(EnsembleDocument, TheContractsExample) {
  const auto task = parsed_ensemble(kEnsembleExample);
  ASSERT_TRUE(task.ok()) << task.status();
  EXPECT_EQ(planned(task->problem, task->policy),
            R"({"utility":0.97,"plan":[{"id":"q1","models":["a","b"],"finish_ms":45.0}],)"
            R"("unserved":[]})");
}

TEST(EnsembleDocument, WhatMayBeLeftOut) {
  const auto task = parsed_ensemble(R"({"models": [{"name": "a", "latency_ms": 3}],
                               "queries": [{"id": "q", "deadline_ms": null, "utility": {}}]})");
  ASSERT_TRUE(task.ok()) << task.status();
  EXPECT_EQ(task->policy, EnsemblePolicy::kDp);
  EXPECT_EQ(task->problem.delta, 0.01);
  EXPECT_EQ(task->problem.models[0].busy, Duration());
  EXPECT_TRUE(task->problem.queries[0].deadline.is_infinite());
  EXPECT_EQ(planned(task->problem, task->policy), R"({"utility":0.0,"plan":[],"unserved":["q"]})");
}

TEST(EnsembleDocument, SaysHowFarFromTheBestItMayBe) {
  EnsembleProblem problem{.models = {{"a", ms(30), ms(0)}, {"b", ms(30), ms(0)}},
                          .queries = {query("q1", 40, {0, 0.5, 0.6, 1}, 2)},
                          .max_steps = 1};
  problem.queries.push_back(query("q2", 40, {0, 0.5, 0.6, 1}, 2));
  const std::string text = planned(problem, EnsemblePolicy::kDp);
  EXPECT_THAT(text, testing::HasSubstr(R"("exact":false,"gap":)"));
}

TEST(EnsembleDocument, SaysWhatIsWrong) {
  const std::pair<std::string, std::string> cases[] = {
      {replaced_in_ensemble("\"delta\"", "\"dleta\""),
       "$.dleta: 0.01, expected no such field, but policy, delta, max_steps, models, queries; "
       "did you mean delta?"},
      {replaced_in_ensemble("0.01", "0"), "$.delta: 0, expected a number from 1e-09 to 1"},
      {replaced_in_ensemble("\"dp\"", "\"greedy\""),
       "$.policy: \"greedy\", expected one of dp, greedy-edf, greedy-fifo, greedy-sjf, original"},
      {replaced_in_ensemble("\"b\", \"latency", "\"a\", \"latency"),
       "$.models[1].name: \"a\", expected a name of its own"},
      {replaced_in_ensemble("\"b\", \"latency", "\"a+b\", \"latency"),
       "$.models[1].name: \"a+b\", expected a name without +, which joins names"},
      {replaced_in_ensemble("30.0", "-30.0"),
       "$.models[0].latency_ms: -30.0, expected a number from 0 to 100000000"},
      {replaced_in_ensemble("12.0", "-1"),
       "$.models[0].busy_ms: -1, expected a number from 0 to 100000000"},
      {replaced_in_ensemble("\"deadline_ms\": 105.0, ", ""),
       "$.queries[0].deadline_ms: missing, expected a number from 0 to 1000000000000"},
      {replaced_in_ensemble("105.0", "-1"),
       "$.queries[0].deadline_ms: -1, expected a number from 0 to 1000000000000"},
      {replaced_in_ensemble("0.97", "1.01"),
       "$.queries[0].utility[\"a+b\"]: 1.01, expected a number from 0 to 1"},
      {replaced_in_ensemble("a+b", "b+a"),
       "$.queries[0].utility[\"b+a\"]: 0.97, expected names of models in their order, joined by +, "
       "as "
       "its name, not 'b+a'"},
      {replaced_in_ensemble("\"dp\"", "\"greedy-sjf\""),
       "$.queries[0].difficulty: missing, expected a number, since greedy-sjf goes by it"},
      {replaced_in_ensemble("\"dp\"", "\"greedy-fifo\""),
       "$.queries[0].arrival_ms: missing, expected a number, since greedy-fifo goes by it"},
      {replaced_in_ensemble("\"dp\"", "\"original\""),
       "$.queries[0].arrival_ms: missing, expected a number, since original goes by it"},
      {replaced_in_ensemble("[{\"id\"",
                            "[{\"id\": \"q1\", \"deadline_ms\": 1, \"utility\": {}}, {\"id\""),
       "$.queries[1].id: \"q1\", expected a name of its own"},
  };
  for (const auto& [text, error] : cases) EXPECT_EQ(message(parsed_ensemble(text).status()), error);
}

TEST(EnsembleDocument, ReadsBackToTheSameAnswer) {
  Random random(3);
  for (int i = 0; i < 300; ++i) {
    EnsembleProblem problem = random_ensemble_problem(random, random.below(8), 1 + random.below(4));
    // Between the milliseconds.
    for (BaseModel& m : problem.models) m.latency += Duration::nanos(7 * i);
    for (EnsembleQuery& q : problem.queries) q.arrival = q.arrival - Duration::nanos(i);
    const auto policy = static_cast<EnsemblePolicy>(random.below(5));
    const std::string text = write_json(to_document({problem, policy}));
    const auto read = parsed_ensemble(text);
    ASSERT_TRUE(read.ok()) << read.status();
    ASSERT_EQ(read->policy, policy);
    ASSERT_EQ(planned(read->problem, read->policy), planned(problem, policy)) << text;
  }
}

}  // namespace
}  // namespace fermata::plan
