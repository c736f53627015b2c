// Stages that run again since what they gave has gone with the worker that kept it.
#include "cluster/frontend/stage_reruns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
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
  void begin(
      std::vector<Tensor> inputs, std::function<void()> meanwhile = [] {}) {
    auto variant = std::make_shared<engine::Variant>();
    HeldRequests::Request request{.variant = std::move(variant)};
    request.request.inputs = std::move(inputs);
    request.reply = [this](engine::ReplyPart part) { replies.push_back(std::move(part)); };
    request.bytes = HeldBytes(budget);
    const auto lose = [&] {
      meanwhile();
      return std::optional(std::move(request));
    };
    EXPECT_TRUE(reruns.begin(kId, lose));
  }
  void give(uint64_t run, const std::string& name, std::vector<float> values) {
    const auto count = static_cast<int64_t>(values.size());
    auto reply = std::exchange(runs.at(run), nullptr);
    reply({.outputs = {numbers(name, {1, count}, std::move(values))}});
  }

  static constexpr JobId kId{5};
  const std::shared_ptr<ByteBudget> budget = std::make_shared<ByteBudget>(1000);
  std::function<void()> on_submit = [] {}, on_go_on = [] {};
  uint64_t next = 100;
  std::map<uint64_t, engine::Reply> runs;
  std::vector<std::string> stages;
  std::vector<JobId> cancelled;
  std::vector<HeldRequests::Request> gone_on;
  std::vector<engine::ReplyPart> replies;
  StageReruns reruns{{.next_id = [this] { return JobId(next++); },
                      .submit =
                          [this](JobId id, engine::InferRequest request, engine::Reply reply) {
                            stages.push_back(request.service);
                            runs[id.value()] = std::move(reply);
                            on_submit();
                          },
                      .cancel = [this](JobId id) { cancelled.push_back(id); },
                      .go_on =
                          [this](JobId, HeldRequests::Request of) {
                            gone_on.push_back(std::move(of));
                            on_go_on();
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
  for (const Tensor& tensor : gone_on[0].request.inputs) {
    EXPECT_EQ(tensor.data.elsewhere, nullptr);
    EXPECT_EQ(tensor.data.bytes.size(), 2 * sizeof(float));
  }
  EXPECT_EQ(gone_on[0].request.inputs[0].name, "in y");
  EXPECT_EQ(gone_on[0].bytes.bytes(), 4 * sizeof(float));  // what was not here before
  EXPECT_THAT(replies, IsEmpty());
  EXPECT_FALSE(reruns.cancel(kId));
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
  EXPECT_TRUE(reruns.cancel(kId));
  EXPECT_THAT(cancelled, ElementsAre(JobId(100)));
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_TRUE(absl::IsCancelled(replies[0].status));
  give(100, "y", {1, 2});
  EXPECT_EQ(replies.size(), 1u);
  EXPECT_THAT(gone_on, IsEmpty());
}

TEST_F(Reruns, AClientMayLeaveWhileItsRequestChangesHands) {
  begin({input("y", source("one"))}, [this] { EXPECT_TRUE(reruns.cancel(kId)); });
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_TRUE(absl::IsCancelled(replies[0].status));
  EXPECT_THAT(stages, IsEmpty());
  on_go_on = [this] { EXPECT_TRUE(reruns.cancel(kId)); };
  begin({input("y", source("one"))});
  give(101, "y", {1, 2});
  ASSERT_EQ(gone_on.size(), 1u);
  EXPECT_THAT(cancelled, ElementsAre(kId));  // who has it now
  EXPECT_FALSE(reruns.cancel(kId));
}

TEST_F(Reruns, ARequestThatHasLostNothingStaysWhereItIs) {
  const auto stays = [this]() -> std::optional<HeldRequests::Request> {
    EXPECT_TRUE(reruns.cancel(kId));
    return {};
  };
  EXPECT_FALSE(reruns.begin(kId, stays));
  EXPECT_THAT(cancelled, ElementsAre(kId));
  EXPECT_THAT(replies, IsEmpty());
}

TEST_F(Reruns, AClientThatLeavesWhileStagesBeginTakesThemAlong) {
  on_submit = [this] { reruns.cancel(kId); };
  begin({input("y", source("one")), input("z", source("two"))});
  EXPECT_EQ(replies.size(), 1u);
  // Of the second one nothing was there to be cancelled at first.
  EXPECT_THAT(cancelled, UnorderedElementsAre(JobId(100), JobId(101), JobId(100), JobId(101)));
}

TEST_F(Reruns, StoppedEndsWhatIsThereAndWhatComes) {
  begin({input("y", source("one"))});
  reruns.stop(absl::UnavailableError("the server is shutting down"));
  EXPECT_THAT(cancelled, ElementsAre(JobId(100)));
  begin({input("y", source("one"))});
  EXPECT_THAT(stages, ElementsAre("one"));
  ASSERT_EQ(replies.size(), 2u);
  for (const engine::ReplyPart& reply : replies) {
    EXPECT_TRUE(absl::IsUnavailable(reply.status));
    EXPECT_EQ(reply.why.outcome, engine::Outcome::kUnavailable);
  }
}

}  // namespace
}  // namespace fermata::cluster
