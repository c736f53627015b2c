// What a frontend keeps of requests that several base models answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "cluster/fixture.h"
#include "cluster/frontend/held_requests.h"
#include "engine/composite/ensemble_service.h"
#include "engine/fixture.h"

namespace fermata::cluster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr plan::Subset kOfA = 1, kOfB = 2, kBoth = 3;

constexpr char kProfile[] =
    R"({"format": 1, "name": "both", "models": ["a", "b"], "task": "regression",
  "aggregation": "average", "width": 1, "queries": 40, "tolerance": 0.1, "measures": {
    "discrepancy": {"norms": [1, 1], "edges": [], "bins": [{"queries": 40, "utility": {"a": 0.5, "b": 0.6, "a+b": 1}}]},
    "agreement": {"norms": [1], "edges": [], "bins": [{"queries": 40, "utility": {"a": 0.5, "b": 0.6, "a+b": 1}}]}}})";

// It makes none: there is no model but the base models.
class NoModels : public engine::ExecutorFactory {
  std::shared_ptr<engine::Executor> make() override { return nullptr; }
};

std::shared_ptr<const engine::Variant> base_model(const std::string& name, uint32_t id) {
  auto variant = std::make_shared<engine::Variant>();
  variant->id = VariantId(id);
  variant->model = name;
  variant->version = "1";
  variant->signature = signature();
  return variant;
}

class HeldEnsembles : public ::testing::Test {
 protected:
  HeldEnsembles() {
    folder_.write("profile/profile.json", kProfile);
    auto service = std::make_shared<engine::EnsembleService>();
    service->variants = {base_model("a", 1), base_model("b", 2)};
    service->names = {"a", "b"};
    service->outputs = {{"y"}, {"y"}};
    engine::EnsembleOptions options{.models = {"a", "b"}};
    options.profile = (folder_.path() / "profile").string();
    auto model = engine::EnsembleModel::make("both", options, {}, *service->variants[0], none_);
    EXPECT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
    service->model = model_.get();
    ensemble_ = std::move(service);
  }
  // Of two items.
  uint64_t add() {
    HeldRequests::Request request{.variant = ensemble_->variants[0], .ensemble = ensemble_};
    request.request.service = "both";
    request.request.inputs = {numbers("x", {2, 2}, {1, 2, 3, 4}), texts("s", {"a", "bc"})};
    request.admitted.items = 2;
    request.reply = [this](engine::ReplyPart reply) { replies.push_back(std::move(reply)); };
    const uint64_t key = requests.next_key();
    requests.add(key, std::move(request), 1, [](uint64_t, const auto&) {});
    return key;
  }
  bool bring(uint64_t key, const std::string& model, uint32_t item, float value) {
    return requests.take(
        {key, item, 1, model}, {1, Duration::millis(2), Time() + Duration::millis(5)},
        [&](const HeldRequests::Given& given) {
          EXPECT_THAT(given.outputs, ElementsAre("y"));
          return absl::StatusOr<std::vector<Tensor>>({numbers("y", {1, 1}, {value})});
        });
  }
  void tell(uint64_t key, HeldAnswers::Subsets answered_by, Time now = Time()) {
    requests.told(key, {{.why = {.variant = "a+b"}}, std::move(answered_by)}, now);
  }
  std::vector<float> values() const {
    const auto bytes = replies.back().outputs.at(0).data.bytes;
    const auto* first = reinterpret_cast<const float*>(bytes.data());
    return {first, first + bytes.size() / sizeof(float)};
  }

  engine::TemporaryFolder folder_;
  NoModels none_;
  std::unique_ptr<engine::EnsembleModel> model_;
  std::shared_ptr<const engine::EnsembleService> ensemble_;
  HeldRequests requests{1000};
  std::vector<engine::ReplyPart> replies;
};

// Whose answers those are only the scheduler knows, which may ask others too.
TEST_F(HeldEnsembles, AreAnsweredWhenTheSchedulerHasSaidWhoseAnswersCount) {
  const uint64_t key = add();
  for (const uint32_t item : {0u, 1u}) {
    EXPECT_TRUE(bring(key, "a", item, 2));
    EXPECT_TRUE(bring(key, "b", item, 6));
  }
  EXPECT_THAT(replies, IsEmpty());
  tell(key, {kOfA, kBoth});
  ASSERT_EQ(replies.size(), 1u);
  ASSERT_TRUE(replies[0].status.ok()) << replies[0].status;
  EXPECT_THAT(values(), ElementsAre(2, 4));
  EXPECT_EQ(replies[0].why.variant, "a+b");
}

// They come another way than the word, and may come after it.
TEST_F(HeldEnsembles, WaitForEveryAnswerThatCounts) {
  const uint64_t key = add();
  EXPECT_TRUE(bring(key, "a", 0, 2));
  EXPECT_TRUE(bring(key, "a", 1, 2));
  tell(key, {kBoth, kOfB});
  EXPECT_THAT(replies, IsEmpty());
  EXPECT_TRUE(bring(key, "b", 1, 8));
  EXPECT_THAT(replies, IsEmpty());
  EXPECT_TRUE(bring(key, "b", 0, 6));
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_THAT(values(), ElementsAre(4, 8));
}

TEST_F(HeldEnsembles, AnAnswerThatDoesNotComeIsAskedForAgain) {
  const uint64_t key = add();
  EXPECT_TRUE(bring(key, "a", 0, 2));
  EXPECT_TRUE(bring(key, "a", 1, 2));
  tell(key, {kBoth, kOfA});
  std::vector<uint64_t> asked;
  const Time now = Time() + Duration::millis(600);
  requests.look(
      now, {{1, now}}, [&asked](uint64_t again, const auto&) { asked.push_back(again); },
      [](uint64_t, const auto&) {});
  EXPECT_THAT(asked, ElementsAre(key));
  tell(key, {kOfA, kOfA}, Time() + Duration::millis(700));
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_THAT(values(), ElementsAre(2, 2));
}

TEST_F(HeldEnsembles, AWordOfOtherItemsOrModelsFailsTheRequest) {
  for (const HeldAnswers::Subsets& wrong :
       {HeldAnswers::Subsets{}, {kBoth}, {kBoth, 0}, {kBoth, 4}}) {
    tell(add(), wrong);
    EXPECT_TRUE(absl::IsInternal(replies.back().status)) << replies.back().status;
    EXPECT_THAT(replies.back().status.message(), HasSubstr("base models"));
  }
  EXPECT_EQ(replies.size(), 4u);
}

// Workers find that, so that schedulers hear of it.
TEST_F(HeldEnsembles, WorkersAreToldHowManyNumbersAreAnAnswer) {
  const uint64_t key = add();
  const auto wanted = requests.fetch({key, 1, 1, "b"});
  ASSERT_TRUE(wanted.ok()) << wanted.status();
  EXPECT_EQ(wanted->numbers, 1u);
  EXPECT_FALSE(requests.fetch({key, 1, 1, "other"}).ok());
  EXPECT_TRUE(bring(key, "a", 0, std::nanf("")));
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_TRUE(absl::IsInternal(replies[0].status));
}

}  // namespace
}  // namespace fermata::cluster
