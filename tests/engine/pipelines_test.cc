// Services whose members are services: what goes through them, and that every request ends once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <future>
#include <latch>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/document.h"
#include "engine/engine.h"
#include "engine/fixture.h"
#include "engine/services/adapter.h"
#include "model/latency_at.h"
#include "plan/pipeline/pipeline_planner.h"

namespace fermata::engine {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Lt;
using ::testing::Not;
using Stage = PipelineOptions::Stage;

ServiceOptions pipeline(std::string service, std::vector<Stage> stages,
                        PipelineOptions::Tensors outputs = {}) {
  return {.name = std::move(service),
          .pipeline = PipelineOptions{std::move(stages), std::move(outputs)}};
}

// The squares of two numbers are taken from a table, which fails on numbers beyond 9.
class Pipelines : public ::testing::Test {
 protected:
  Pipelines() {
    for (const char* model : {"base-plain", "base-table", "whole", "identity-fp32"}) {
      folder_.copy_model(model, std::string("models/") + model);
    }
  }
  absl::StatusOr<std::unique_ptr<Engine>> start(std::vector<ServiceOptions> services) {
    EngineOptions options = options_for(folder_.path() / "models");
    options.services = std::move(services);
    return make_engine(std::move(options));
  }
  static ReplyPart ask(Engine& engine, const std::string& service, std::vector<float> x,
                       std::optional<Duration> timeout = {}) {
    const auto items = static_cast<int64_t>(x.size() / 2);
    return call(engine, {.service = service,
                         .inputs = {floats("x", {items, 2}, std::move(x))},
                         .timeout = timeout});
  }
  TemporaryFolder folder_;
};

TEST_F(Pipelines, AStageReadsWhatTheOneBeforeItGives) {
  auto engine =
      start({pipeline("twice", {{"a", "base-table"}, {"b", "base-table", {"a"}}}),
             pipeline("nested", {{"inside", "twice"}, {"last", "base-plain", {"inside"}}})});
  ASSERT_TRUE(engine.ok()) << engine.status();
  ReplyPart reply = ask(**engine, "twice", {1, 2, 3, 0});
  ASSERT_TRUE(reply.status.ok()) << reply.status;
  EXPECT_THAT(values<float>(reply.outputs[0]), ElementsAre(1, 16, 81, 0));
  reply = ask(**engine, "nested", {3, 2}, Duration::seconds(20));
  ASSERT_TRUE(reply.status.ok()) << reply.status;
  EXPECT_THAT(values<float>(reply.outputs[0]), ElementsAre(81, 16));
  const Json stages = Json::parse(reply.why.stages);
  ASSERT_EQ(stages.size(), 2u);
  EXPECT_EQ(stages[0]["stages"][1]["variant"], "base-table");
  EXPECT_GT(stages[1]["remaining_ms"], 0);
  EXPECT_GT(stages[0]["budget_ms"], 0);
}

TEST_F(Pipelines, AFailureNamesItsStageAndWhatCannotMakeItDoesNotBegin) {
  auto engine = start({pipeline("p", {{"a", "base-table"}, {"b", "base-table", {"a"}}})});
  ASSERT_TRUE(engine.ok()) << engine.status();
  ReplyPart reply = ask(**engine, "p", {4, 0});
  EXPECT_THAT(std::string(reply.status.message()), HasSubstr("stage 'b': "));
  EXPECT_EQ(reply.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(reply.why.outcome, Outcome::kInvalid);
  reply = ask(**engine, "p", {1, 1}, Duration::nanos(1));
  EXPECT_EQ(reply.why.outcome, Outcome::kRejectedDeadline);
  for (const ServiceStatistics& row : (*engine)->snapshot().services) {
    if (row.service != "p/a") continue;
    EXPECT_EQ(row.success.count + row.fail.count, 1u);  // the second request asked nobody
  }
}

// A model without batches makes three items of one.
TEST_F(Pipelines, ItemsThatAStageMakesGoOn) {
  Stage whole{"make", "whole"};
  whole.fan_out = "y";
  auto engine = start({pipeline("p", {whole, {"each", "identity-fp32", {"make"}}})});
  ASSERT_TRUE(engine.ok()) << engine.status();
  std::vector<float> x(15);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  const ReplyPart reply = call(**engine, {.service = "p", .inputs = {floats("x", {3, 5}, x)}});
  ASSERT_TRUE(reply.status.ok()) << reply.status;
  EXPECT_THAT(reply.outputs[0].shape, ElementsAre(3, 5));
  EXPECT_EQ(values<float>(reply.outputs[0])[14], -14);
  EXPECT_EQ(Json::parse(reply.why.stages)[1]["items"], 3);
}

TEST_F(Pipelines, AVariantMayBeAService) {
  ServiceOptions chosen{.name = "chosen"};
  chosen.variants =
      VariantsOptions{.models = {"base-plain", "twice"}, .services = {{"twice", 0.9}}};
  auto engine =
      start({pipeline("twice", {{"a", "base-table"}, {"b", "base-table", {"a"}}}), chosen});
  ASSERT_TRUE(engine.ok()) << engine.status();
  ReplyPart reply = ask(**engine, "chosen", {2, 1, 3, 3}, Duration::seconds(20));
  ASSERT_TRUE(reply.status.ok()) << reply.status;
  EXPECT_THAT(values<float>(reply.outputs[0]), ElementsAre(16, 1, 81, 81));
  // The pipeline fails on it, and the other is asked.
  reply = ask(**engine, "chosen", {4, 1}, Duration::seconds(20));
  ASSERT_TRUE(reply.status.ok()) << reply.status;
  EXPECT_THAT(values<float>(reply.outputs[0]), ElementsAre(4, 1));
}

// Squares are taken of what is above 2 only; the others end early.
TEST_F(Pipelines, AStageMayDependOnAnEarlierOnesOutput) {
  Stage squares{"b", "base-table", {"a"}};
  squares.when = Condition{"a.y", Condition::Kind::kAbove, {2}, Condition::Element::kAny};
  auto engine = start({pipeline("p", {{"a", "base-plain"}, squares}, {{"y", "b.y"}, {"y", "a.y"}}),
                       pipeline("outer", {{"p", "p"}, {"again", "base-plain", {"p"}}})});
  ASSERT_TRUE(engine.ok()) << engine.status();
  ReplyPart reply = ask(**engine, "p", {3, 1});
  ASSERT_TRUE(reply.status.ok()) << reply.status;
  EXPECT_THAT(values<float>(reply.outputs[0]), ElementsAre(9, 1));
  for (const char* service : {"p", "outer"}) {
    reply = ask(**engine, service, {2, 1});
    ASSERT_TRUE(reply.status.ok()) << reply.status;
    EXPECT_THAT(values<float>(reply.outputs[0]), ElementsAre(2, 1)) << service;
  }
  EXPECT_EQ(Json::parse(reply.why.stages).size(), 2u);
}

// Three parts where two are allowed: that is not the service's fault, however deep it comes up.
TEST_F(Pipelines, TooManyItemsAtAStageAreTheClientsFault) {
  Stage whole{"make", "whole"};
  whole.fan_out = "y";
  EngineOptions options = options_for(folder_.path() / "models");
  options.limits.request_parts = 2;
  options.services = {{.name = "alone", .model = "identity-fp32", .max_batch = 1},
                      pipeline("p", {whole, {"each", "alone", {"make"}}}),
                      pipeline("outer", {{"inner", "p"}})};
  auto engine = make_engine(options);
  ASSERT_TRUE(engine.ok()) << engine.status();
  for (const char* service : {"p", "outer"}) {
    const ReplyPart reply = call(
        **engine, {.service = service, .inputs = {floats("x", {3, 5}, std::vector<float>(15))}});
    EXPECT_EQ(reply.status.code(), absl::StatusCode::kOutOfRange) << reply.status;
    EXPECT_EQ(reply.why.outcome, Outcome::kInvalid);
    EXPECT_THAT(std::string(reply.status.message()),
                HasSubstr("stage 'each': 3 items run in 3 parts, expected at most 2 "
                          "(limits.request_parts)"));
  }
  options.limits.request_parts = 3;
  engine = make_engine(options);
  ASSERT_TRUE(engine.ok()) << engine.status();
  const ReplyPart three =
      call(**engine, {.service = "p", .inputs = {floats("x", {3, 5}, std::vector<float>(15))}});
  EXPECT_TRUE(three.status.ok()) << three.status;
}

// Its items run apart, and all of them wait for their members at the same time.
TEST_F(Pipelines, WhatHasBeenLetInIsNotRejectedAtAStageForAFullQueue) {
  ServiceOptions chosen{.name = "chosen", .queue_limit = 1};
  chosen.variants =
      VariantsOptions{.models = {"base-plain", "twice"}, .services = {{"twice", 0.1}}};
  EngineOptions options = options_for(folder_.path() / "models");
  options.limits.request_parts = 2000;
  options.services = {pipeline("twice", {{"a", "base-table"}, {"b", "base-table", {"a"}}}), chosen};
  auto engine = make_engine(options);
  ASSERT_TRUE(engine.ok()) << engine.status();
  const ReplyPart reply = ask(**engine, "chosen", std::vector<float>(2 * 1500, 1));
  EXPECT_TRUE(reply.status.ok()) << reply.status;
}

// As models do that say what they were sent.
struct Quoting : operators::Operator {
  Quoting() : Operator({{"x", DataType::kFp32, {2}, {2}}}, {{"x", DataType::kFp32, {2}, {2}}}) {}
  absl::StatusOr<std::vector<Tensor>> apply(absl::Span<const Tensor>) const override {
    return absl::InvalidArgumentError("cannot read '\xff'");
  }
};

TEST_F(Pipelines, AnErrorThatIsNoUtf8IsExplainedToo) {
  Stage first{"first"};
  first.op = std::make_shared<Quoting>();
  auto engine = start({pipeline("p", {first, {"second", "base-plain", {"first"}}})});
  ASSERT_TRUE(engine.ok()) << engine.status();
  const ReplyPart reply =
      call(**engine, {.service = "p", .inputs = {floats("x", {2}, {1, 2})}, .explain = true});
  EXPECT_FALSE(reply.status.ok());
  EXPECT_THAT(reply.why.stages, HasSubstr("cannot read '\xEF\xBF\xBD'"));
}

// Holds its first item until somebody lets it go on.
struct Gateway : operators::Operator {
  Gateway() : Operator({{"x", DataType::kFp32, {2}, {2}}}, {{"x", DataType::kFp32, {2}, {2}}}) {}
  absl::StatusOr<std::vector<Tensor>> apply(absl::Span<const Tensor> inputs) const override {
    if (!reached.try_wait()) reached.count_down();
    go_on.wait();
    return std::vector<Tensor>(inputs.begin(), inputs.end());
  }
  mutable std::latch reached{1}, go_on{1};
};

TEST_F(Pipelines, AStageThatIsUnloadedBeforeItRunsIsUnavailableAndEveryRequestIsCounted) {
  const auto gateway = std::make_shared<Gateway>();
  Stage first{"first"};
  first.op = gateway;
  auto engine = start({pipeline("p", {first, {"second", "base-plain", {"first"}}})});
  ASSERT_TRUE(engine.ok()) << engine.status();
  const auto request = [&](const std::string& service) {
    return InferRequest{
        .service = service, .inputs = {floats("x", {2}, {1, 2})}, .arrival = (*engine)->now()};
  };
  std::promise<ReplyPart> promise;
  (*engine)->submit(request("p"), [&](ReplyPart part) { promise.set_value(std::move(part)); });
  gateway->reached.wait();
  ASSERT_TRUE((*engine)->unload("base-plain").ok());
  gateway->go_on.count_down();
  const ReplyPart reply = promise.get_future().get();
  EXPECT_EQ(reply.status.code(), absl::StatusCode::kUnavailable) << reply.status;
  EXPECT_EQ(reply.why.outcome, Outcome::kUnavailable);
  EXPECT_THAT(std::string(reply.status.message()),
              HasSubstr("stage 'second': what it runs was unloaded"));
  for (const char* service : {"p", "base-plain", "base-plain", "nobody"}) {
    EXPECT_FALSE(call(**engine, request(service)).status.ok()) << service;
  }
  std::map<std::string, uint64_t> unavailable;
  const EngineSnapshot snapshot = (*engine)->snapshot();
  for (const ServiceStatistics& row : snapshot.services) {
    unavailable[row.service] += row.outcomes[static_cast<size_t>(Outcome::kUnavailable)];
  }
  EXPECT_EQ(unavailable["p"], 2u);
  EXPECT_EQ(unavailable["base-plain"], 2u);
  EXPECT_EQ(snapshot.unknown, 1u);
  ASSERT_TRUE((*engine)->load("base-plain").ok());
  EXPECT_TRUE(call(**engine, request("p")).status.ok());
}

// The seconds are the test's, beside those of the clock: no request is lost by a plan, and each
// decision is a document that the planner answers alike.
TEST_F(Pipelines, AnAdapterPlansTheVariantsOfStages) {
  ServiceOptions inner{.name = "p/b"};
  inner.variants = VariantsOptions{.models = {"base-plain", "base-table"},
                                   .accuracy = {{"base-plain", 0.2}, {"base-table", 0.9}}};
  ServiceOptions outer = pipeline("p", {{"a", "base-plain"}, {"b", "p/b", {"a"}}});
  AdapterOptions adapter{.interval = Duration::seconds(1000), .sla = Duration::seconds(10)};
  adapter.limits.alpha = 1000;
  outer.pipeline->adapter = adapter;
  auto engine = start({outer, inner});
  ASSERT_TRUE(engine.ok()) << engine.status();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(ask(**engine, "p", {3, 1}).status.ok());
  for (int s = 0; s < 1000 && (*engine)->adapter_decisions().empty(); ++s) (*engine)->end_second();
  const auto decisions = (*engine)->adapter_decisions();
  ASSERT_FALSE(decisions.empty());
  const plan::PipelineDecision& made = decisions[0].decision;
  ASSERT_TRUE(made.answer.feasible) << made.answer.reason;
  EXPECT_EQ(made.problem.stages[1].variants[made.answer.stages[1].variant].name, "base-table");
  EXPECT_EQ(plan::plan_pipeline(made.problem).objective, made.answer.objective);
  const ReplyPart reply = ask(**engine, "p", {3, 1}, Duration::seconds(20));
  ASSERT_TRUE(reply.status.ok()) << reply.status;
  EXPECT_EQ(Json::parse(reply.why.stages)[1]["variant"], "base-table");
  bool counted = false;
  for (const ServiceStatistics& row : (*engine)->snapshot().services) {
    counted = counted || (row.service == "p/b/base-table" && row.success.count == 1);
  }
  EXPECT_TRUE(counted);
  EXPECT_EQ((*engine)->snapshot().pipelines.at(0).stages[1].variant, "base-table");
  ASSERT_TRUE((*engine)->unload("base-table").ok());
  const ReplyPart other = ask(**engine, "p", {3, 1}, Duration::seconds(20));
  ASSERT_TRUE(other.status.ok()) << other.status;
  EXPECT_EQ(Json::parse(other.why.stages)[1]["variant"], "base-plain");
}

// Three items of one, of which the model that the plan names takes two at a time.
TEST_F(Pipelines, WhatAPlannedStageGetsBeyondABatchRunsInParts) {
  Stage whole{"make", "whole"};
  whole.fan_out = "y";
  ServiceOptions pairs{.name = "pairs", .model = "identity-fp32", .max_batch = 2};
  ServiceOptions inner{.name = "p/each"};
  inner.variants =
      VariantsOptions{.models = {"identity-fp32"}, .accuracy = {{"identity-fp32", 0.9}}};
  ServiceOptions outer = pipeline("p", {whole, {"each", "p/each", {"make"}}});
  outer.pipeline->adapter =
      AdapterOptions{.interval = Duration::seconds(1000), .sla = Duration::seconds(10)};
  auto engine = start({outer, inner, pairs});
  ASSERT_TRUE(engine.ok()) << engine.status();
  std::vector<float> x(15);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  const InferRequest request{.service = "p", .inputs = {floats("x", {3, 5}, x)}};
  ASSERT_TRUE(call(**engine, request).status.ok());
  for (int s = 0; s < 1000 && (*engine)->adapter_decisions().empty(); ++s) (*engine)->end_second();
  const auto decisions = (*engine)->adapter_decisions();
  ASSERT_FALSE(decisions.empty());
  EXPECT_EQ(decisions[0].decision.problem.stages[1].items, 3);
  const ReplyPart reply = call(**engine, request);
  ASSERT_TRUE(reply.status.ok()) << reply.status;
  EXPECT_THAT(reply.outputs[0].shape, ElementsAre(3, 5));
  EXPECT_EQ(values<float>(reply.outputs[0])[14], -14);  // in their order
  const Json each = Json::parse(reply.why.stages)[1];
  EXPECT_EQ(each["items"], 3);
  EXPECT_EQ(each["variant"], "identity-fp32");
  bool found = false;
  for (const ServiceStatistics& row : (*engine)->snapshot().services) {
    if (row.service != "p/each/identity-fp32") continue;
    found = true;
    EXPECT_EQ(row.success.count, 2u);  // with the one before the plan
    EXPECT_EQ(row.inference_count, 6u);
    EXPECT_EQ(row.batches.rbegin()->first, 2u);
  }
  EXPECT_TRUE(found);
}

// What later stages fail has run in the first one all the same.
TEST_F(Pipelines, RequestsThatFailDoNotLookLikeItemsOfOthers) {
  ServiceOptions chain = pipeline("p", {{"a", "base-plain"}, {"b", "base-table", {"a"}}});
  chain.pipeline->adapter =
      AdapterOptions{.interval = Duration::seconds(1000), .sla = Duration::seconds(10)};
  auto engine = start({chain});
  ASSERT_TRUE(engine.ok()) << engine.status();
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(ask(**engine, "p", {3, 1}).status.ok());
    for (int k = 0; k < 4; ++k) EXPECT_FALSE(ask(**engine, "p", {30, 1}).status.ok());
  }
  for (int s = 0; s < 1000 && (*engine)->adapter_decisions().empty(); ++s) (*engine)->end_second();
  const auto decisions = (*engine)->adapter_decisions();
  ASSERT_FALSE(decisions.empty());
  for (const auto& stage : decisions[0].decision.problem.stages) EXPECT_EQ(stage.items, 1);
}

// What was measured of the model before must not be believed of the one in its place.
TEST_F(Pipelines, APlanForgetsTheLatenciesOfAModelThatWasReplaced) {
  const auto claim = [this](const std::string& model, double ms) {
    Profile profile{.version = 1,
                    .model = model,
                    .model_version = "1",
                    .machine = "none",
                    .provider = "cpu",
                    .threads = 1};
    for (const uint32_t b : {1u, 4u}) profile.batches[b] = {1, ms, ms, ms, ms};
    fit(profile);
    ASSERT_TRUE(write_profile(profile, folder_.path() / "models" / model / "profile.json").ok());
  };
  claim("base-plain", 20'000);  // which it does not take
  claim("base-table", 20'000);
  ServiceOptions chain = pipeline("p", {{"a", "base-plain"}, {"b", "base-table", {"a"}}});
  chain.pipeline->adapter =
      AdapterOptions{.interval = Duration::seconds(2), .sla = Duration::seconds(10)};
  auto engine = start({chain});
  ASSERT_TRUE(engine.ok()) << engine.status();
  const auto planned_ms = [&] {
    const size_t before = (*engine)->adapter_decisions().size();
    while ((*engine)->adapter_decisions().size() == before) (*engine)->end_second();
    std::vector<double> ms;
    const auto decisions = (*engine)->adapter_decisions();
    for (const auto& stage : decisions[0].decision.problem.stages) {
      ms.push_back(std::get<TableLatency>(stage.variants[0].latency).points_ms.at(1));
    }
    return ms;
  };
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(ask(**engine, "p", {3, 1}).status.ok());
  EXPECT_THAT(planned_ms(), Each(Lt(15'000)));
  claim("base-plain", 30'000);
  ASSERT_TRUE((*engine)->load("base-plain", {}).ok());
  EXPECT_THAT(planned_ms(), ElementsAre(30'000, Lt(15'000)));
}

// A stage that is a pipeline is a request of its own, whose slot in a queue nobody else gives back.
TEST_F(Pipelines, AWithdrawnStageThatIsAPipelineGivesItsSlotBackAndIsCounted) {
  const TemporaryFolder folder;
  write_emulated(folder, "slow", 8, 1, 2000);
  EngineOptions options = options_for(folder.path());
  options.workers.executor = ExecutorKind::kEmulated;
  options.services = {pipeline("inner", {{"a", "slow"}}), pipeline("outer", {{"x", "inner"}})};
  auto made = make_engine(std::move(options));
  ASSERT_TRUE(made.ok()) << made.status();
  Engine& engine = **made;
  constexpr int kRequests = 4;
  std::latch ended(kRequests);
  for (int i = 0; i < kRequests; ++i) {
    engine.cancel(engine.submit(
        {.service = "outer", .inputs = {floats("x", {1, 2}, {1, 2})}, .arrival = engine.now()},
        [&ended](ReplyPart part) {
          EXPECT_EQ(part.why.outcome, Outcome::kCancelled);
          ended.count_down();
        }));
  }
  ended.wait();
  bool found = false;
  for (const ServiceStatistics& row : engine.snapshot().services) {
    if (row.service != "outer/x") continue;
    found = true;
    EXPECT_EQ(row.pending, 0u);
    EXPECT_EQ(row.outcomes[static_cast<size_t>(Outcome::kCancelled)], kRequests);
  }
  EXPECT_TRUE(found);
}

// The load rises beyond what the accurate variant can carry on all cores: the other one's replicas
// come, requests go to them, and the first one's leave when they have answered what they had.
TEST_F(Pipelines, DedicatedReplicasComeAndGoWithoutLosingARequest) {
  const TemporaryFolder folder;
  write_emulated(folder, "first", 8, 0.01, 0.1);
  write_emulated(folder, "quick", 8, 0.01, 0.2);
  write_emulated(folder, "slow", 8, 0.1, 20);
  EngineOptions options = options_for(folder.path());
  options.workers.executor = ExecutorKind::kEmulated;
  options.workers.types[0].count = 4;
  ServiceOptions either{.name = "p/b"};
  either.variants =
      VariantsOptions{.models = {"quick", "slow"}, .accuracy = {{"quick", 0.2}, {"slow", 0.9}}};
  ServiceOptions outer = pipeline("p", {{"a", "first"}, {"b", "p/b"}});
  outer.pipeline->stages[1].after = {"a"};
  outer.pipeline->stages[1].inputs = {{"x", "x"}};  // of the request: shapes of "first" differ
  AdapterOptions adapter{.interval = Duration::seconds(2),
                         .forecast = Forecast::kMovingMaximum,
                         .sla = Duration::seconds(10)};
  adapter.limits.alpha = 1000;
  adapter.limits.batch_sizes = {1, 2};
  adapter.dedicated = true;
  outer.pipeline->adapter = adapter;
  options.services = {outer, either};
  auto engine = make_engine(options);
  ASSERT_TRUE(engine.ok()) << engine.status();
  const auto serving = [&](const std::string& route) {
    return (*engine)->snapshot().pipelines.at(0).serving.at(route);
  };
  EXPECT_EQ(serving("p/a/first"), 1u);
  EXPECT_EQ(serving("p/b/slow"), 1u);
  EXPECT_EQ(serving("p/b/quick"), 0u);
  constexpr int kRequests = 800;
  std::latch ended(kRequests);
  std::atomic<int> answered{0}, largest{0};
  for (int i = 0; i < kRequests; ++i) {
    InferRequest request{.service = "p", .inputs = {floats("x", {1, 2}, {1, 2})}, .explain = true};
    request.arrival = (*engine)->now();
    (*engine)->submit(std::move(request), [&](ReplyPart part) {
      answered += part.status.ok();
      for (const Json& stage : Json::parse(part.why.stages)) {
        largest = std::max<int>(largest, stage["batch_size"]);
      }
      ended.count_down();
    });
  }
  while (serving("p/b/quick") == 0) (*engine)->end_second();
  ended.wait();
  EXPECT_EQ(answered, kRequests);
  EXPECT_LE(largest, 2);
  while (serving("p/b/slow") > 0) (*engine)->end_second();
  const ReplyPart reply = call(**engine, {.service = "p", .inputs = {floats("x", {1, 2}, {1, 2})}});
  ASSERT_TRUE(reply.status.ok()) << reply.status;
  EXPECT_EQ(Json::parse(reply.why.stages)[1]["variant"], "quick");

  const auto asked = [&](const std::string& service) {
    return call(**engine, {.service = service, .inputs = {floats("x", {1, 2}, {1, 2})}}).status;
  };
  EXPECT_EQ(asked("quick").code(), absl::StatusCode::kUnavailable);  // it is on no shared worker
  EXPECT_THAT(std::string(asked("first").message()), HasSubstr("on dedicated replicas"));
  // Without a second that passes, requests go to the variant that is left.
  EXPECT_TRUE((*engine)->unload("quick").ok());
  EXPECT_GE(serving("p/b/slow"), 1u);
  EXPECT_TRUE(asked("p").ok()) << asked("p");
  EXPECT_TRUE((*engine)->load("first").ok());
  EXPECT_TRUE(asked("p").ok()) << asked("p");

  options.services.push_back({.name = "first"});
  auto both = make_engine(options);
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_TRUE(
      call(**both, {.service = "first", .inputs = {floats("x", {1, 2}, {1, 2})}}).status.ok());
  options.services.pop_back();

  options.services[0].pipeline->adapter->threads = {{"nobody", 2}};
  EXPECT_THAT(std::string(make_engine(options).status().message()), HasSubstr("names 'nobody'"));
  options.services[0].pipeline->adapter->threads.clear();
  options.services.push_back(pipeline("q", {{"a", "p"}}));
  options.services.back().pipeline->adapter = adapter;
  EXPECT_THAT(std::string(make_engine(options).status().message()),
              HasSubstr("expected a model or variants"));
}

// Equation 1 by hand: 60 requests a second are too many for one thread of "quick" (50) and not for
// two (100); "slow" bears them on no number, and so has the most; the user says what "said" has.
TEST_F(Pipelines, DedicatedReplicasHaveTheThreadsOfEquationOne) {
  const TemporaryFolder folder;
  for (const char* model : {"plain", "quick", "slow", "said"}) {
    write_emulated(folder, model, 4, 0, 20);
  }
  const auto profiled = [&folder](const std::string& model, uint32_t threads, double ms) {
    write_emulated_profile(folder, model, 2, 0, ms, 0,
                           "profile.threads-" + std::to_string(threads) + ".json");
  };
  for (const char* model : {"quick", "said"}) {
    profiled(model, 1, 20);
    profiled(model, 2, 10);
    profiled(model, 4, 5);
  }
  profiled("slow", 1, 90);
  profiled("slow", 2, 50);
  profiled("slow", 8, 1);  // more than all workers have
  EngineOptions options = options_for(folder.path());
  options.workers.executor = ExecutorKind::kEmulated;
  options.workers.types[0].count = 4;
  ServiceOptions either{.name = "p/b"};
  either.variants = VariantsOptions{.models = {"quick", "slow", "said"}};
  either.variants->accuracy = {{"quick", 0.2}, {"slow", 0.1}, {"said", 0.1}};
  ServiceOptions outer = pipeline("p", {{"a", "plain"}, {"b", "p/b"}});
  outer.pipeline->stages[1].inputs = {{"x", "x"}};  // of the request
  AdapterOptions adapter{.sla = Duration::seconds(10), .dedicated = true, .threads = {{"said", 4}}};
  adapter.threshold_rps = 60;
  adapter.limits.batch_sizes = {1};
  outer.pipeline->adapter = adapter;
  options.services = {outer, either};
  auto engine = make_engine(options);
  ASSERT_TRUE(engine.ok()) << engine.status();
  const auto decisions = (*engine)->adapter_decisions();
  ASSERT_FALSE(decisions.empty());
  const auto& stages = decisions[0].decision.problem.stages;
  EXPECT_EQ(stages[0].variants[0].cost, 1);  // no profile by threads: as a worker
  EXPECT_EQ(stages[1].variants[0].cost, 2);
  EXPECT_EQ(*latency_ms(stages[1].variants[0].latency, 1), 10);  // and as profiled there
  EXPECT_EQ(stages[1].variants[1].cost, 2);
  EXPECT_EQ(stages[1].variants[2].cost, 4);
  ASSERT_EQ(decisions[0].cores.size(), 1u);
  EXPECT_EQ(decisions[0].cores[0].stage, "b");
  EXPECT_THAT(decisions[0].cores[0].answer.cores, ElementsAre(2, std::nullopt, 4));
}

// Four workers serve as long as no plan but that of dedicated replicas needs them.
TEST_F(Pipelines, DedicatedReplicasKeepNoSharedWorkers) {
  EngineOptions options = options_for(folder_.path() / "models");
  options.workers.types[0].count = 4;
  options.workers.least = 1;
  ServiceOptions chain = pipeline("p", {{"a", "base-plain"}, {"b", "base-table", {"a"}}});
  chain.pipeline->adapter = AdapterOptions{.sla = Duration::seconds(10), .dedicated = true};
  options.services = {chain};
  auto engine = make_engine(options);
  ASSERT_TRUE(engine.ok()) << engine.status();
  const EngineSnapshot first = (*engine)->snapshot();
  EXPECT_GE(first.pipelines.at(0).cost, 2);
  (*engine)->close_window();
  uint32_t serving = 0;
  for (const WorkerStatistics& worker : (*engine)->snapshot().workers) serving += worker.serving;
  EXPECT_EQ(serving, 1u);
}

// Forty requests every third second, for which 24 a second are forecast: 12 workers carry 19. A
// plan's batches take nearly all of the SLA, so that no burst may wait for the next ones.
TEST_F(Pipelines, AForecastBeyondCapacityDoesNotFlip) {
  Profile profile{.version = 1,
                  .model = "base-plain",
                  .model_version = "1",
                  .machine = "none",
                  .provider = "cpu",
                  .threads = 1};
  for (const uint32_t b : {1u, 4u}) profile.batches[b] = {1, 2500, 2500, 2500, 2500};
  fit(profile);
  const auto file = folder_.path() / "models" / "base-plain" / "profile.json";
  ASSERT_TRUE(write_profile(profile, file).ok());
  EngineOptions options = options_for(folder_.path() / "models");
  options.workers.types[0].count = 12;
  ServiceOptions one = pipeline("p", {{"a", "base-plain"}});
  one.pipeline->adapter =
      AdapterOptions{.interval = Duration::seconds(2), .sla = Duration::seconds(3)};
  one.pipeline->adapter->limits.batch_sizes = {4};
  options.services = {one};
  auto engine = make_engine(options);
  ASSERT_TRUE(engine.ok()) << engine.status();
  for (int second = 0; second < 60; ++second) {
    std::latch ended(second % 3 == 0 ? 40 : 0);
    for (int i = 0; second % 3 == 0 && i < 40; ++i) {
      InferRequest request{.service = "p", .inputs = {floats("x", {1, 2}, {1, 2})}};
      request.arrival = (*engine)->now();
      request.timeout = Duration::micros(1);
      (*engine)->submit(std::move(request), [&](const ReplyPart&) { ended.count_down(); });
    }
    ended.wait();
    (*engine)->end_second();
  }
  const auto decisions = (*engine)->adapter_decisions();
  ASSERT_GE(decisions.size(), 10u);
  for (size_t d = 0; d < 10; ++d) {
    EXPECT_FALSE(decisions[d].decision.answer.feasible) << decisions[d].forecast_rps;
  }
}

TEST_F(Pipelines, AnObjectiveBelowTheFastestPathIsNoted) {
  EngineOptions options = options_for(folder_.path() / "models");
  ServiceOptions chain = pipeline("p", {{"a", "base-plain"}, {"b", "base-table", {"a"}}});
  chain.slo = Duration::nanos(10);
  options.services = {chain};
  const Examination short_of_time = examine(options);
  EXPECT_TRUE(short_of_time.findings.empty());
  EXPECT_THAT(short_of_time.notes, Contains(HasSubstr("its fastest path takes")));
  options.services[0].slo = Duration::seconds(100);
  EXPECT_THAT(examine(options).notes, Not(Contains(HasSubstr("fastest path"))));
}

TEST_F(Pipelines, MistakesAreSaid) {
  const auto said = [this](std::vector<ServiceOptions> services) {
    return std::string(start(std::move(services)).status().message());
  };
  EXPECT_THAT(said({pipeline("p", {{"a", "p"}})}), HasSubstr("'p' contains itself"));
  EXPECT_THAT(said({pipeline("p", {{"a", "q"}}), pipeline("q", {{"a", "p"}})}),
              HasSubstr("contains itself"));
  EXPECT_THAT(said({pipeline("p", {{"a", "nobody"}})}), HasSubstr("'nobody' is no service"));
  EXPECT_THAT(said({pipeline("p", {{"a", "base-plain", {"b"}}, {"b", "base-plain", {"a"}}})}),
              HasSubstr("comes after itself"));
  EXPECT_THAT(said({pipeline("p", {{"a", "base-plain"}, {"b", "whole", {"a"}}})}),
              HasSubstr("input 'x' of stage 'b'"));
  EXPECT_THAT(said({pipeline("p", {{"a", "base-plain"}}, {{"o", "a.z"}})}),
              HasSubstr("no output 'z'"));
  Stage late{"b", "base-plain", {"a"}};
  late.when = Condition{"a.z", Condition::Kind::kBelow, {1}};
  EXPECT_THAT(said({pipeline("p", {{"a", "base-plain"}, late})}), HasSubstr("runs when 'a.z'"));
  late = {"b", "identity-fp32", {"make"}};
  late.when = Condition{"make.y", Condition::Kind::kBelow, {1}};
  Stage whole{"make", "whole"};
  whole.fan_out = "y";
  EXPECT_THAT(said({pipeline("p", {whole, late})}), HasSubstr("one of max, min, argmax, any"));
}

// Many clients, deadlines of all kinds, cancellations, and a member that is reloaded meanwhile.
TEST_F(Pipelines, EveryRequestEndsOnceAndIsCounted) {
  auto started = start({pipeline("twice", {{"a", "base-table"}, {"b", "base-table", {"a"}}}),
                        pipeline("nested", {{"a", "twice"}, {"b", "base-plain", {"a"}}})});
  ASSERT_TRUE(started.ok()) << started.status();
  Engine& engine = **started;
  constexpr int kThreads = 3, kEach = 300;
  const std::array<std::string, 2> names = {"twice", "nested"};
  std::array<std::array<std::atomic<uint64_t>, kOutcomes>, 2> seen{};
  std::latch ended(kThreads * kEach);
  std::vector<std::thread> clients;
  for (int t = 0; t < kThreads; ++t) {
    clients.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        const size_t service = i % 2;
        const float x = i % 11 == 0 ? 9.0F : 1.0F;  // 81 is beyond the table
        InferRequest request{.service = names[service], .inputs = {floats("x", {1, 2}, {x, 1})}};
        request.arrival = engine.now();
        if (i % 3 != 0) request.timeout = Duration::micros(100 * (i % 50));
        const JobId job = engine.submit(std::move(request), [&, service](ReplyPart part) {
          ++seen[service][static_cast<size_t>(part.why.outcome)];
          ended.count_down();
        });
        if (i % 7 == t) engine.cancel(job);
      }
    });
  }
  EXPECT_TRUE(engine.load("base-plain").ok());
  for (std::thread& client : clients) client.join();
  ended.wait();
  for (const ServiceStatistics& row : engine.snapshot().services) {
    const auto at =
        static_cast<size_t>(std::find(names.begin(), names.end(), row.service) - names.begin());
    if (at == names.size()) continue;
    for (size_t i = 0; i < kOutcomes; ++i) {
      EXPECT_EQ(row.outcomes[i], seen[at][i].load()) << row.service << i;
    }
  }
  EXPECT_GT(seen[0][static_cast<size_t>(Outcome::kOnTime)], 0u);
}

}  // namespace
}  // namespace fermata::engine
