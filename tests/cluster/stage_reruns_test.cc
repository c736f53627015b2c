// Stages that run again since what they gave has gone with the worker that kept it.
#include "cluster/frontend/stage_reruns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "cluster/fixture.h"

namespace fermata::cluster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

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
    auto variant = std::make_shared<engine::Variant>();
    HeldRequests::Request request{.variant = std::move(variant)};
    request.request.inputs = std::move(inputs);
    request.reply = [this](engine::ReplyPart part) { replies.push_back(std::move(part)); };
    reruns.begin(kId, std::move(request));
  }
  void give(uint64_t run, const std::string& name, std::vector<float> values) {
    const auto count = static_cast<int64_t>(values.size());
    auto reply = std::exchange(runs.at(run), nullptr);
    reply({.outputs = {numbers(name, {1, count}, std::move(values))}});
  }

  static constexpr JobId kId{5};
  uint64_t next = 100;
  std::map<uint64_t, engine::Reply> runs;
  std::vector<std::string> stages;
  std::vector<JobId> cancelled;
  std::vector<HeldRequests::Request> gone_on;
  std::vector<engine::ReplyPart> replies;
  StageReruns reruns{
      {.next_id = [this] { return JobId(next++); },
       .submit =
           [this](JobId id, engine::InferRequest request, engine::Reply reply) {
             stages.push_back(request.service);
             runs[id.value()] = std::move(reply);
           },
       .cancel = [this](JobId id) { cancelled.push_back(id); },
       .go_on = [this](JobId, HeldRequests::Request of) { gone_on.push_back(std::move(of)); }}};
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
  EXPECT_THAT(replies, IsEmpty());
  EXPECT_FALSE(reruns.cancel(kId));
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

}  // namespace
}  // namespace fermata::cluster
