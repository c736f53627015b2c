#include "cluster/frontend/held_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>

#include "cluster/fixture.h"

namespace fermata::cluster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kFirst = 1000;

Time at(int64_t millis) { return Time() + Duration::millis(millis); }

class Held : public ::testing::Test {
 protected:
  // Three items, with so much time.
  uint64_t add(uint64_t session, Time deadline = Time::infinite(), uint32_t division = 0) {
    auto variant = std::make_shared<engine::Variant>();
    variant->model = "m";
    variant->version = "1";
    variant->signature = signature();
    HeldRequests::Request request{.variant = std::move(variant), .deadline = deadline};
    request.request.service = "service";
    request.request.id = "mine";
    request.request.explain = explain;
    request.request.inputs = {numbers("x", {3, 2}, {1, 2, 3, 4, 5, 6}),
                              texts("s", {"a", "bc", ""})};
    request.request.parameters = R"({"p":1})";
    request.admitted.items = 3;
    request.division = division;
    request.reply = [this](engine::ReplyPart reply) { replies.push_back(std::move(reply)); };
    const uint64_t key = requests.next_key();
    requests.add(key, std::move(request), session, asks);
    return key;
  }
  // Outputs of some items, whose number they are.
  bool bring(uint64_t key, uint32_t first, uint32_t items) {
    return requests.take(
        {key, first, items}, {3, Duration::millis(2), at(5)}, [&](const HeldRequests::Given&) {
          std::vector<float> values;
          for (uint32_t i = 0; i < items; ++i) values.push_back(static_cast<float>(first + i));
          return absl::StatusOr<std::vector<Tensor>>({numbers("y", {items, 1}, values)});
        });
  }
  void tell(uint64_t key, absl::Status status = absl::OkStatus(), Time now = Time()) {
    requests.told(key, {{.status = std::move(status), .version = "2"}, {}}, now);
  }
  void look(Time now) {
    requests.look(now, {{1, heard.value_or(now)}}, asks,
                  [this](uint64_t key, const auto&) { gave_up.push_back(key); });
  }
  std::vector<float> values() const {
    const auto bytes = replies.back().outputs.at(0).data.bytes;
    const auto* first = reinterpret_cast<const float*>(bytes.data());
    return {first, first + bytes.size() / sizeof(float)};
  }

  bool explain = true;  // then the scheduler's word is waited for
  HeldRequests requests{kFirst};
  const std::function<void(uint64_t, const HeldRequests::Request&)> asks =
      [this](uint64_t key, const auto&) { asked.push_back(key); };
  std::vector<engine::ReplyPart> replies;
  std::vector<uint64_t> asked, gave_up;
  std::optional<Time> heard;  // of the scheduler, last; none: just now
};

// Whoever wants to know nothing more need not wait for what the scheduler has to say of it.
TEST_F(Held, IsAnsweredByTheLastOutputsWhereNobodyAsksWhy) {
  explain = false;
  const uint64_t key = add(1);
  EXPECT_TRUE(bring(key, 0, 1));
  EXPECT_THAT(replies, IsEmpty());
  EXPECT_TRUE(bring(key, 1, 2));
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_TRUE(replies[0].status.ok());
  EXPECT_EQ(replies[0].why.variant, "m");
  EXPECT_EQ(replies[0].why.batch_items, 3u);
  EXPECT_EQ(replies[0].why.run, Duration::millis(2));
  EXPECT_EQ(replies[0].why.queueing, Duration::millis(3));
  tell(key);  // nobody's any more
  EXPECT_EQ(replies.size(), 1u);
}

TEST_F(Held, IsAnsweredWhenAllItemsAndTheSchedulersWordAreThere) {
  const uint64_t key = add(1);
  EXPECT_THAT(asked, ElementsAre(key));
  EXPECT_TRUE(bring(key, 1, 2));
  tell(key);
  EXPECT_THAT(replies, IsEmpty());
  EXPECT_TRUE(bring(key, 0, 1));
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_TRUE(replies[0].status.ok());
  EXPECT_EQ(replies[0].id, "mine");
  EXPECT_EQ(replies[0].model, "service");
  EXPECT_EQ(replies[0].version, "2");
  EXPECT_THAT(values(), ElementsAre(0, 1, 2));
  EXPECT_FALSE(bring(key, 0, 3));
  tell(key);
  EXPECT_EQ(replies.size(), 1u);
  EXPECT_EQ(requests.size(), 0u);
}

TEST_F(Held, TheSchedulersWordMayComeLast) {
  const uint64_t key = add(1);
  EXPECT_TRUE(bring(key, 0, 3));
  EXPECT_THAT(replies, IsEmpty());
  tell(key);
  EXPECT_THAT(values(), ElementsAre(0, 1, 2));
}

TEST_F(Held, ARefusalNeedsNoOutputs) {
  const uint64_t key = add(1);
  tell(key, absl::DeadlineExceededError("too late"));
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_TRUE(absl::IsDeadlineExceeded(replies[0].status));
}

TEST_F(Held, WorkersFetchTheirItems) {
  const uint64_t key = add(1);
  const auto wanted = requests.fetch({key, 1, 2});
  ASSERT_TRUE(wanted.ok());
  EXPECT_EQ(wanted->parameters, R"({"p":1})");
  EXPECT_THAT(wanted->inputs[0].shape, ElementsAre(2, 2));
  EXPECT_EQ(wanted->inputs[0].data.bytes.size(), 4 * sizeof(float));
  EXPECT_EQ(wanted->inputs[1].data.bytes.size(), 4u + 2 + 4);
  EXPECT_FALSE(requests.fetch({key, 2, 2}).ok());
  EXPECT_FALSE(requests.fetch({key, 0xffffffff, 2}).ok());
  EXPECT_TRUE(absl::IsCancelled(requests.fetch({key + 1, 0, 1}).status()));
}

TEST_F(Held, WhatTheClientLeftIsNobodys) {
  const uint64_t key = add(1);
  EXPECT_TRUE(requests.cancel(key));
  EXPECT_FALSE(requests.cancel(key));
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_EQ(replies[0].why.outcome, engine::Outcome::kCancelled);
  EXPECT_TRUE(absl::IsCancelled(requests.fetch({key, 0, 1}).status()));
}

TEST_F(Held, AnotherSchedulerIsAskedForWhatWaits) {
  const uint64_t waits = add(0), asked_before = add(1);
  EXPECT_THAT(asked, ElementsAre(asked_before));
  requests.lost(1);
  requests.ask_again(0, 2, asks);
  EXPECT_THAT(asked, ::testing::UnorderedElementsAre(asked_before, asked_before, waits));
  requests.ask_again(0, 2, asks);
  EXPECT_EQ(asked.size(), 3u);
}

TEST_F(Held, EachDivisionHasASchedulerOfItsOwn) {
  const uint64_t here = add(1), there = add(2, Time::infinite(), 1);
  asked.clear();
  requests.ask_again(0, 3, asks);
  EXPECT_THAT(asked, ElementsAre(here));
  const auto gives_up = [this](uint64_t key, const auto&) { gave_up.push_back(key); };
  requests.look(at(10), {{3, at(10)}, {2, at(10)}}, asks, gives_up);
  EXPECT_EQ(asked.size(), 1u);
  requests.lost(2);
  requests.look(at(20), {{3, at(20)}, {4, at(20)}}, asks, gives_up);
  EXPECT_THAT(asked, ElementsAre(here, there));
  EXPECT_EQ(requests.cancel(there), 1u);
}

// What a worker ran for the one that is gone, and brings when another has been asked.
TEST_F(Held, OutputsOfARunBeforeAnswerOnce) {
  const uint64_t key = add(1);
  ASSERT_TRUE(requests.fetch({key, 0, 3}).ok());
  requests.lost(1);
  requests.ask_again(0, 2, asks);
  EXPECT_TRUE(bring(key, 0, 3));
  EXPECT_EQ(replies.size(), 1u);
  EXPECT_FALSE(bring(key, 0, 3));
  tell(key);
  EXPECT_EQ(replies.size(), 1u);
}

TEST_F(Held, WhoHasAllOutputsIsAnsweredWithoutAScheduler) {
  const uint64_t before = add(1), after = add(1);
  EXPECT_TRUE(bring(before, 0, 3));
  requests.lost(1);
  EXPECT_EQ(replies.size(), 1u);
  EXPECT_TRUE(bring(after, 0, 3));
  EXPECT_EQ(replies.size(), 2u);
  EXPECT_EQ(replies[1].version, "1");
}

TEST_F(Held, AnotherDivisionTakesThePlaceOfTheFirst) {
  const uint64_t key = add(1);
  EXPECT_TRUE(bring(key, 0, 2));
  requests.lost(1);
  requests.ask_again(0, 2, asks);
  EXPECT_TRUE(bring(key, 1, 2));
  EXPECT_THAT(replies, IsEmpty());
  EXPECT_TRUE(bring(key, 0, 1));
  EXPECT_THAT(values(), ElementsAre(0, 1, 2));
}

TEST_F(Held, NobodyWaitsLongBeyondADeadline) {
  const uint64_t waits = add(1, at(100)), runs = add(1, at(100));
  ASSERT_TRUE(requests.fetch({runs, 0, 3}).ok());
  look(at(120));
  EXPECT_THAT(replies, IsEmpty());
  look(at(130));
  EXPECT_THAT(gave_up, ElementsAre(waits));
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_TRUE(absl::IsDeadlineExceeded(replies[0].status));
  EXPECT_TRUE(bring(runs, 0, 3));
  tell(runs);
  EXPECT_EQ(replies.size(), 2u);
}

TEST_F(Held, WhatRunsForASchedulerThatSaysNothingIsNotWaitedForBeyondItsDeadline) {
  const uint64_t key = add(1, at(100));
  ASSERT_TRUE(requests.fetch({key, 0, 3}).ok());
  heard = at(90);
  look(at(128));
  EXPECT_THAT(replies, IsEmpty());
  look(at(140));
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_TRUE(absl::IsDeadlineExceeded(replies[0].status));
  EXPECT_THAT(gave_up, ElementsAre(key));
}

TEST_F(Held, OutputsAreEnoughBeyondTheDeadline) {
  const uint64_t key = add(1, at(100));
  ASSERT_TRUE(requests.fetch({key, 0, 3}).ok());
  EXPECT_TRUE(bring(key, 0, 3));
  look(at(120));
  EXPECT_THAT(replies, IsEmpty());
  look(at(130));
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_THAT(values(), ElementsAre(0, 1, 2));
}

TEST_F(Held, OutputsThatDoNotComeAreNotWaitedForBeyondTheDeadline) {
  const uint64_t key = add(1, at(100));
  tell(key, absl::OkStatus(), at(90));
  look(at(120));
  EXPECT_THAT(replies, IsEmpty());
  look(at(130));
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_TRUE(absl::IsDeadlineExceeded(replies[0].status));
}

TEST_F(Held, WhatRanForASchedulerThatIsGoneIsNotWaitedForBeyondItsDeadline) {
  const uint64_t key = add(1, at(100));
  ASSERT_TRUE(requests.fetch({key, 0, 3}).ok());
  requests.lost(1);
  const auto look_alone = [this](Time now) {
    requests.look(now, {{0, now}}, asks,
                  [this](uint64_t each, const auto&) { gave_up.push_back(each); });
  };
  look_alone(at(120));
  EXPECT_THAT(replies, IsEmpty());
  look_alone(at(130));
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_TRUE(absl::IsDeadlineExceeded(replies[0].status));
}

TEST_F(Held, WhoCameWhileASchedulerWasFoundIsAskedForSoon) {
  const uint64_t key = add(0);
  look(at(10));
  look(at(20));
  EXPECT_THAT(asked, ElementsAre(key));
}

TEST_F(Held, OutputsThatDoNotComeAreAskedForAgain) {
  const uint64_t key = add(1);
  tell(key, absl::OkStatus(), at(0));
  look(at(400));
  EXPECT_EQ(asked.size(), 1u);
  int64_t now = 0;
  for (int i = 0; i < 4; ++i) {
    look(at(now += 600));
    tell(key, absl::OkStatus(), at(now));
  }
  EXPECT_EQ(asked.size(), 5u);
  look(at(now += 600));
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_TRUE(absl::IsUnavailable(replies[0].status));
  EXPECT_THAT(gave_up, ElementsAre(key));
}

TEST_F(Held, WhoseOutputsDoNotComeWaitsForTheNextScheduler) {
  const uint64_t key = add(1, at(2000));
  tell(key, absl::OkStatus(), at(0));
  requests.lost(1);
  const auto look_alone = [this](Time now) {
    requests.look(now, {{0, now}}, asks,
                  [this](uint64_t each, const auto&) { gave_up.push_back(each); });
  };
  look_alone(at(600));
  EXPECT_THAT(replies, IsEmpty());
  requests.ask_again(0, 2, asks);
  EXPECT_THAT(asked, ElementsAre(key, key));
  tell(key, absl::OkStatus(), at(700));
  requests.lost(2);
  look_alone(at(2100));
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_TRUE(absl::IsDeadlineExceeded(replies[0].status));
}

TEST_F(Held, AWrongAnswerOfAWorkerFailsTheRequest) {
  const uint64_t one = add(1), two = add(1);
  EXPECT_TRUE(requests.take({one, 0, 3}, {},
                            [](const auto&) { return absl::InternalError("no such output"); }));
  EXPECT_TRUE(bring(two, 2, 2));
  ASSERT_EQ(replies.size(), 2u);
  for (const auto& reply : replies) EXPECT_TRUE(absl::IsInternal(reply.status));
}

TEST_F(Held, AllEndWhenTheFrontendStops) {
  add(1);
  add(0);
  requests.end_all(absl::UnavailableError("stops"));
  EXPECT_EQ(replies.size(), 2u);
  asked.clear();
  add(1);  // by a thread that had begun before
  ASSERT_EQ(replies.size(), 3u);
  EXPECT_TRUE(absl::IsUnavailable(replies[2].status));
  EXPECT_THAT(asked, IsEmpty());
  EXPECT_EQ(requests.size(), 0u);
}

}  // namespace
}  // namespace fermata::cluster
