// Stages that run again since what they gave has gone with the worker that kept it.
#include "cluster/frontend/stage_reruns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "cluster/fixture.h"

namespace fermata::cluster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class Reruns : public ::testing::Test {
 protected:
  using Source = HeldRequests::Source;
  static std::shared_ptr<Source> source(const std::string& stage) {
    auto made = std::make_shared<Source>();
    made->request.service = stage;
    return made;
  }
  // Its outputs `name` has this source, if any; else it is here.
  static Tensor input(const std::string& name, std::shared_ptr<Source> of) {
    Tensor tensor = numbers("in " + name, {1, 2}, {0, 0});
    if (of == nullptr) return tensor;
    tensor.data = {};
    tensor.data.elsewhere = std::make_shared<KeptElsewhere>(
        KeptElsewhere{"host:1", 7, 0, 2 * sizeof(float), name, std::move(of)});
    return tensor;
  }
  void begin(std::vector<Tensor> inputs) {
    HeldRequests::Request request{.variant = std::make_shared<engine::Variant>()};
    request.request.inputs = std::move(inputs);
    request.reply = [this](engine::ReplyPart part) { replies.push_back(std::move(part)); };
    request.bytes = HeldBytes(budget);
    requests.add(kId.value(), std::move(request), 0, no_scheduler);
    EXPECT_TRUE(reruns.begin(kId));
  }
  // As a frontend does.
  void cancel() {
    if (!requests.cancel(kId.value())) reruns.cancel(kId);
  }
  void give(uint64_t run, const std::string& name, std::vector<float> values) {
    const auto count = static_cast<int64_t>(values.size());
    auto reply = std::exchange(runs.at(run), nullptr);
    reply({.outputs = {numbers(name, {1, count}, std::move(values))}});
  }

  static constexpr JobId kId{5};
  const std::shared_ptr<ByteBudget> budget = std::make_shared<ByteBudget>(1000);
  std::function<void()> on_submit = [] {}, on_go_on = [] {};
  const std::function<void(uint64_t, const HeldRequests::Request&)> no_scheduler =
      [](uint64_t, const auto&) {};
  std::map<uint64_t, engine::Reply> runs;
  std::vector<std::string> stages;
  std::vector<JobId> cancelled;
  std::vector<std::vector<Tensor>> gone_on;  // with these inputs
  std::vector<engine::ReplyPart> replies;
  HeldRequests requests{100};
  StageReruns reruns{requests,
                     {.submit =
                          [this](JobId id, engine::InferRequest request, engine::Reply reply) {
                            stages.push_back(request.service);
                            runs[id.value()] = std::move(reply);
                            on_submit();
                          },
                      .cancel = [this](JobId id) { cancelled.push_back(id); },
                      .go_on =
                          [this](JobId id, HeldRequests::Request of) {
                            on_go_on();
                            gone_on.push_back(of.request.inputs);
                            requests.add(id.value(), std::move(of), 0, no_scheduler);
                          }}};
};

TEST_F(Reruns, ARequestGoesOnWhenAllItsInputsHaveComeAgain) {
  const auto one = source("one"), two = source("two");
  begin({input("y", one), input("here", nullptr), input("z", two)});
  EXPECT_THAT(stages, ElementsAre("one", "two"));
  give(100, "y", {1, 2});
  EXPECT_THAT(gone_on, IsEmpty());
  give(101, "z", {3, 4});
  ASSERT_EQ(gone_on.size(), 1u);
  for (const Tensor& tensor : gone_on[0]) {
    EXPECT_EQ(tensor.data.elsewhere, nullptr);
    EXPECT_EQ(tensor.data.bytes.size(), 2 * sizeof(float));
  }
  EXPECT_EQ(gone_on[0][0].name, "in y");
  EXPECT_EQ(budget->used(), 4 * sizeof(float));  // what was not here before
  EXPECT_THAT(replies, IsEmpty());
  EXPECT_FALSE(requests.let_go(kId.value()));  // it is there again
  EXPECT_EQ(requests.size(), 1u);
}

TEST_F(Reruns, WhatComesAgainHasToHaveRoom) {
  budget->take_anyway(budget->limit());
  begin({input("y", source("one"))});
  give(100, "y", {1, 2});
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_TRUE(absl::IsResourceExhausted(replies[0].status));
  EXPECT_EQ(replies[0].why.outcome, engine::Outcome::kRejectedQueue);
  EXPECT_THAT(gone_on, IsEmpty());
  EXPECT_EQ(budget->used(), budget->limit());
}

TEST_F(Reruns, ItsReplyIsThatOfAStageThatCannotRunAgain) {
  begin({input("y", source("one")), input("z", source("two"))});
  auto reply = std::move(runs.at(100));
  reply({.status = absl::DeadlineExceededError("too late"),
         .why = {.outcome = engine::Outcome::kRejectedDeadline}});
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_TRUE(absl::IsDeadlineExceeded(replies[0].status));
  EXPECT_EQ(replies[0].why.outcome, engine::Outcome::kRejectedDeadline);
  EXPECT_THAT(cancelled, ElementsAre(JobId(101)));
  give(101, "z", {1, 2});
  EXPECT_EQ(replies.size(), 1u);
  EXPECT_THAT(gone_on, IsEmpty());
  cancel();  // too late
  EXPECT_FALSE(requests.let_go(kId.value()));
}

TEST_F(Reruns, AnotherOutputThanBeforeIsAFailure) {
  begin({input("y", source("one"))});
  give(100, "y", {1, 2, 3});
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_TRUE(absl::IsInternal(replies[0].status));
  EXPECT_EQ(replies[0].why.outcome, engine::Outcome::kFailed);
}

TEST_F(Reruns, AClientThatLeavesTakesThemAlong) {
  begin({input("y", source("one"))});
  cancel();
  EXPECT_THAT(cancelled, ElementsAre(JobId(100)));
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_TRUE(absl::IsCancelled(replies[0].status));
  EXPECT_EQ(budget->used(), 0u);
  give(100, "y", {1, 2});
  EXPECT_EQ(replies.size(), 1u);
  EXPECT_EQ(gone_on.size(), 1u);
  EXPECT_EQ(requests.size(), 0u);
}

TEST_F(Reruns, AClientMayLeaveWhileItsRequestGoesOn) {
  on_go_on = [this] { cancel(); };
  begin({input("y", source("one"))});
  give(100, "y", {1, 2});
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_TRUE(absl::IsCancelled(replies[0].status));
  EXPECT_EQ(requests.size(), 0u);
}

TEST_F(Reruns, ARequestThatHasLostNothingStaysWhereItIs) {
  EXPECT_FALSE(reruns.begin(kId));
  requests.add(kId.value(), {.variant = std::make_shared<engine::Variant>()}, 0, no_scheduler);
  EXPECT_FALSE(reruns.begin(kId));
  EXPECT_EQ(requests.size(), 1u);
}

TEST_F(Reruns, AClientThatLeavesWhileStagesBeginTakesThemAlong) {
  on_submit = [this] { cancel(); };
  begin({input("y", source("one")), input("z", source("two"))});
  EXPECT_EQ(replies.size(), 1u);
  // Of the second one nothing was there to be cancelled at first.
  EXPECT_THAT(cancelled, UnorderedElementsAre(JobId(100), JobId(101), JobId(100), JobId(101)));
}

TEST_F(Reruns, WhatGoesOnAtAFrontendThatStopsEnds) {
  begin({input("y", source("one"))});
  requests.end_all(absl::UnavailableError("the server is shutting down"));
  give(100, "y", {1, 2});
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_TRUE(absl::IsUnavailable(replies[0].status));
  EXPECT_EQ(replies[0].why.outcome, engine::Outcome::kUnavailable);
}

}  // namespace
}  // namespace fermata::cluster
