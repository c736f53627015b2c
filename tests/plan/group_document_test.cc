#include "plan/variants/group_document.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/status.h"
#include "plan/group_fixture.h"
#include "plan/variants/group_planner.h"

namespace fermata::plan {
namespace {

constexpr std::string_view kGroupExample = R"(
  {"now_ms": 0.0,
   "workers": [{"name": "gpu0", "free_at_ms": 3.0, "loaded": ["x3d-s"], "memory_mb": 12000}],
   "applications": [{"name": "fall", "penalty": "sigmoid", "prior": [0.5, 0.5],
     "variants": [{"name": "x3d-s", "latency_ms": {"alpha": 2.0, "beta": 9.0}, "load_ms": 40.0,
                   "memory_mb": 300, "recall": [0.95, 0.70], "accuracy": 0.93, "max_batch": 8}],
     "short_circuit": {"name": "knn", "accuracy": 0.71}}],
   "requests": [{"id": "r1", "application": "fall", "arrival_ms": -20.0, "deadline_ms": 130.0,
                 "evidence": [2, 3]}],
   "policy": "sneakpeek", "tau": 5})";

absl::StatusOr<GroupProblem> parsed_group(std::string_view text) {
  ASSIGN_OR_RETURN(Document document, Document::parse(text));
  return document.read(read_group_problem);
}

std::string planned(const GroupProblem& problem) {
  GroupPlanner planner;
  return write_group_schedule(problem, planner.plan(problem)).dump();
}

std::string replaced_in_group(std::string_view what, std::string_view by) {
  std::string text(kGroupExample);
  return text.replace(text.find(what), what.size(), by);
}

// Posterior mean (0.5 + 2, 0.5 + 3) / 6; 0.95 * 2.5 / 6 + 0.70 * 3.5 / 6 = 0.8041666... beats
// the short circuit's 0.71; 3 + 2 * 1 + 9 = 14 is before 130.
TEST(GroupDocument, TheContractsExample) {
  const auto problem = parsed_group(kGroupExample);
  ASSERT_TRUE(problem.ok()) << problem.status();
  EXPECT_EQ(planned(*problem),
            R"({"utility":0.8041666666666667,"schedule":[{"worker":"gpu0","variant":"x3d-s",)"
            R"("requests":["r1"],"start_ms":3.0,"finish_ms":14.0}],"short_circuited":[],)"
            R"("expected_accuracy":{"r1":0.8041666666666667},"exact":true})");
}

TEST(GroupDocument, InfeasibleNamesTheLimit) {
  std::string text = replaced_in_group("12000", "299");
  text.erase(text.find(R"("x3d-s"], "memory)"), 7);
  const auto problem = parsed_group(text);
  ASSERT_TRUE(problem.ok()) << problem.status();
  // With evidence the short circuit needs no memory.
  EXPECT_EQ(planned(*problem), R"({"utility":0.71,"schedule":[],"short_circuited":["r1"],)"
                               R"("expected_accuracy":{"r1":0.71},"exact":true})");
  GroupProblem without = *problem;
  without.short_circuit = false;
  EXPECT_EQ(planned(without), R"({"feasible":false,"binding":"memory_mb",)"
                              R"("reason":"no variant of 'fall' fits the memory of any worker"})");
}

TEST(GroupDocument, SaysWhatIsWrong) {
  const std::string variant = "$.applications[0].variants[0]";
  const std::pair<std::string, std::string> cases[] = {
      {replaced_in_group("\"tau\"", "\"tao\""),
       "$.tao: 5, expected no such field, but now_ms, policy, tau, max_group, max_steps, others, "
       "others_price, last_price, last_tried, data_aware, short_circuit, workers, applications, "
       "other_models, requests; did you mean tau?"},
      {replaced_in_group("\"now_ms\": 0.0,", ""),
       "$.now_ms: missing, expected a number from -2000000000000 to 2000000000000"},
      {replaced_in_group("[2, 3]", "[2, 3, 4]"),
       "$.requests[0].evidence: a list of 3, expected one for each of 2 classes"},
      {replaced_in_group("[2, 3]", "[2, -3]"),
       "$.requests[0].evidence[1]: -3, expected a number from 0 to 1000000000000"},
      {replaced_in_group("[0.5, 0.5]", "[0.5, 0]"),
       "$.applications[0].prior[1]: 0, expected a positive number"},
      {replaced_in_group("[0.5, 0.5]", "[0.5, -1]"),
       "$.applications[0].prior[1]: -1, expected a positive number"},
      {replaced_in_group("[0.95, 0.70]", "[0.95]"),
       variant + ".recall: a list of 1, expected one for each of 2 classes"},
      {replaced_in_group("\"recall\": [0.95, 0.70], ", ""),
       variant + ".recall: missing, expected a list of at least 1"},
      {replaced_in_group("0.93", "1.01"),
       variant + ".accuracy: 1.01, expected a number from 0 to 1"},
      {replaced_in_group("\"sigmoid\"", "\"cubic\""),
       "$.applications[0].penalty: \"cubic\", expected one of step, linear, sigmoid, none"},
      {replaced_in_group("\"sigmoid\"", "{\"constant\": 2}"),
       "$.applications[0].penalty.constant: 2, expected a number from 0 to 1"},
      {replaced_in_group("\"sneakpeek\"", "\"fifo\""),
       "$.policy: \"fifo\", expected one of sneakpeek, grouped, lo-priority, lo-edf, maxacc-edf, "
       "fermata"},
      {replaced_in_group("\"application\": \"fall\"", "\"application\": \"fell\""),
       "$.requests[0].application: \"fell\", expected the name of an application"},
      {replaced_in_group("[\"x3d-s\"]", "[\"x3d-m\"]"),
       "$.workers[0].loaded[0]: \"x3d-m\", expected a variant of the applications"},
      {replaced_in_group("[\"x3d-s\"]", "[\"x3d-s\", \"x3d-s\"]"),
       "$.workers[0].loaded[1]: \"x3d-s\", expected each variant once"},
      {replaced_in_group("12000", "299"),
       "$.workers[0].loaded[0]: \"x3d-s\", expected a variant that fits the worker's memory_mb"},
      {replaced_in_group("130.0", "-20.0"),
       "$.requests[0].deadline_ms: -20.0, expected a deadline after arrival_ms"},
      {replaced_in_group("\"knn\"", "\"x3d-s\""),
       "$.applications[0].short_circuit.name: \"x3d-s\", expected a name of its own"},
      {replaced_in_group("40.0", "-40.0"),
       variant + ".load_ms: -40.0, expected a number from 0 to 100000000"},
      {replaced_in_group("{\"alpha\": 2.0, \"beta\": 9.0}",
                         "{\"fast\": {\"alpha\": 2.0, \"beta\": 9.0}}"),
       variant + ".latency_ms.fast: a map, expected a type of the workers as its name, not 'fast'"},
  };
  for (const auto& [text, error] : cases) EXPECT_EQ(message(parsed_group(text).status()), error);
}

TEST(GroupDocument, ReadsBackToTheSameAnswer) {
  Random random(3);
  for (int i = 0; i < 300; ++i) {
    GroupProblem problem = random_group_problem(random);
    problem.policy = static_cast<GroupPolicy>(random.below(5));
    problem.tau = static_cast<uint32_t>(random.below(6));
    if (random.below(2) == 0) problem.max_group = static_cast<uint32_t>(1 + random.below(4));
    // Long after the clock's origin, and between the milliseconds.
    const Duration shift = Duration::seconds(400 * 86'400) + Duration::nanos(123'456'789);
    problem.now = problem.now + shift;
    for (GroupWorker& w : problem.workers) w.free_at = w.free_at + shift + Duration::nanos(i);
    for (GroupRequest& r : problem.requests) {
      r.arrival = r.arrival + shift - Duration::nanos(7 * i);
      r.deadline = r.deadline + shift + Duration::nanos(i);
    }
    const std::string text = write_json(to_document(problem));
    const auto read = parsed_group(text);
    ASSERT_TRUE(read.ok()) << read.status();
    GroupPlanner planner;
    const std::string answer =
        write_group_schedule(problem, planner.plan(problem), problem.now).dump();
    ASSERT_EQ(planned(*read), answer) << text;
  }
}

}  // namespace
}  // namespace fermata::plan
