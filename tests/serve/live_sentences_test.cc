#include "serve/live/live_sentences.h"

#include <gtest/gtest.h>

#include "base/document.h"
#include "plan/ensemble/ensemble_document.h"
#include "plan/variants/group_document.h"

namespace fermata::serve {
namespace {

TEST(LiveSentences, AStreamDecisionSaysWhoSendsWhat) {
  engine::StreamDecision decision;
  for (int i = 0; i < 4; ++i) decision.problem.clients.push_back({.rate_rps = 15});
  decision.groups = {{"shapes", 256, 1}, {"shapes", 96, 2}, {"shapes", 0, 1}};
  EXPECT_EQ(sentence(decision),
            "4 clients send 60 frames/s together. It told 1 client of 'shapes' at size 256, 2 "
            "clients of 'shapes' at size 96; 1 of them cannot be answered in time at any size.");
}

TEST(LiveSentences, APipelinesDecisionSaysWhatItsStagesRun) {
  engine::AdapterDecision decision;
  decision.forecast_rps = 12.5;
  plan::PipelineProblem& problem = decision.decision.problem;
  problem.sla_ms = 600;
  problem.stages = {{.name = "detect", .variants = {{.name = "small"}, {.name = "large"}}}};
  decision.decision.answer = {.feasible = true, .latency_ms = 80, .stages = {{1, 4, 2}}};
  EXPECT_EQ(
      sentence(decision),
      "It expects up to 12.5 requests/s. 'detect' runs 'large' in batches of 4 on 2 replicas. "
      "That takes 80.0 of 600.0 ms. The plan before was the same.");
  decision.decision.answer.feasible = false;
  decision.decision.answer.reason = "no variant is fast enough";
  EXPECT_EQ(sentence(decision),
            "It expects up to 12.5 requests/s. No plan keeps the limits (no variant is fast "
            "enough), so the variants stay.");
}

TEST(LiveSentences, VariantsSayWhoWaitedAndWhatWasChosen) {
  auto document = Document::parse(R"({"now_ms": 0,
      "workers": [{"name": "gpu0", "free_at_ms": 0}, {"name": "gpu1", "free_at_ms": 3}],
      "applications": [{"name": "fall", "penalty": "step", "variants": [
          {"name": "small", "latency_ms": {"alpha": 1, "beta": 1}, "accuracy": 0.7}]}],
      "requests": [{"id": "a", "application": "fall", "arrival_ms": -1, "deadline_ms": 30},
                   {"id": "b", "application": "fall", "arrival_ms": -1, "deadline_ms": 50}]})");
  ASSERT_TRUE(document.ok());
  const auto problem = document->read(plan::read_group_problem);
  ASSERT_TRUE(problem.ok()) << problem.status();
  EXPECT_EQ(sentence(policy::Problem(*problem)),
            "Of the requests that waited (2 of 'fall'), it planned 'small' for 2. The first "
            "deadline was 30.0 ms away; 1 of 2 workers was idle.");
}

TEST(LiveSentences, NameServicesAndModelsAsPeopleDo) {
  auto document = Document::parse(R"({"now_ms": 0, "workers": [{"name": "gpu0", "free_at_ms": 0}],
      "applications": [
          {"name": "fall", "penalty": "step", "variants": [
              {"name": "small/1[]", "latency_ms": {"alpha": 1, "beta": 1}, "accuracy": 0.7}]},
          {"name": "fall#1", "penalty": "linear", "variants": [
              {"name": "small/1[]", "latency_ms": {"alpha": 1, "beta": 1}, "accuracy": 0.7}]}],
      "requests": [{"id": "a", "application": "fall", "arrival_ms": -1, "deadline_ms": 30},
                   {"id": "b", "application": "fall#1", "arrival_ms": -1, "deadline_ms": 50}]})");
  ASSERT_TRUE(document.ok());
  const auto problem = document->read(plan::read_group_problem);
  ASSERT_TRUE(problem.ok()) << problem.status();
  EXPECT_TRUE(
      sentence(policy::Problem(*problem))
          .starts_with("Of the requests that waited (2 of 'fall'), it planned 'small' for 2."));
}

TEST(LiveSentences, EnsemblesSayWhichBaseModelsAnswer) {
  auto document = Document::parse(R"({"models": [{"name": "a", "latency_ms": 30, "busy_ms": 0},
                                                 {"name": "b", "latency_ms": 45, "busy_ms": 0}],
      "queries": [{"id": "q", "deadline_ms": 105, "utility": {"a": 0.8, "b": 0.86, "a+b": 0.97}},
                  {"id": "r", "deadline_ms": 10, "utility": {"a": 0.8}}]})");
  ASSERT_TRUE(document.ok());
  const auto task = document->read(plan::read_ensemble_task);
  ASSERT_TRUE(task.ok()) << task.status();
  EXPECT_EQ(
      sentence(policy::Problem(*task)),
      "Of 2 queries that waited, 1 will be answered: 'a' for 1, 'b' for 1. The first deadline "
      "was 10.0 ms away.");
}

}  // namespace
}  // namespace fermata::serve
