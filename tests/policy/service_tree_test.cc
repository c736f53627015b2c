#include "policy/tree/service_tree.h"

#include <gmock/gmock.h>

#include "policy/hand.h"
#include "policy/tree/members.h"
#include "policy/tree/parts.h"
#include "policy/tree/pipeline.h"

namespace fermata::policy {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// A tree driven by hand: the test says which children end when. Times in milliseconds.
class TreeByHand : public testing::Test {
 protected:
  ServiceId leaf(double run_ms, uint32_t max_batch = 8) {
    return tree.add_leaf(linear(0.001, run_ms - 0.001, max_batch));
  }
  ServiceId pipeline(std::vector<StageInfo> stages) {
    return tree.add(std::make_unique<PipelineChooser>(std::move(stages)));
  }
  void arrive(ServiceId service, double now_ms, double deadline_ms, uint32_t items = 1) {
    tree.arrived(root, service, items, at_ms(deadline_ms), at_ms(now_ms));
  }
  // The children that were started since the last look.
  std::vector<TreeDecisions::Started> started() {
    return std::exchange(tree.decisions().started, {});
  }
  TreeDecisions::Started one() {
    const auto all = started();
    EXPECT_EQ(all.size(), 1u);
    return all.empty() ? TreeDecisions::Started{} : all[0];
  }
  void end(JobId id, double now_ms, uint32_t made = 1, Ending how = Ending::kAnswered) {
    tree.ended(id, how, made, at_ms(now_ms));
  }
  TreeDecisions::Ended ending() {
    const auto all = std::exchange(tree.decisions().ended, {});
    EXPECT_EQ(all.size(), 1u);
    return all.empty() ? TreeDecisions::Ended{} : all[0];
  }

  uint64_t ids = 100;
  ServiceTree tree{[this] { return JobId(ids++); }};
  const JobId root{1};
};

TEST_F(TreeByHand, StagesOfAChainShareTheDeadlineByTheirRuns) {
  const ServiceId chain = pipeline({{leaf(10), {}}, {leaf(30), {0}}});
  arrive(chain, 0, 100);
  const auto first = one();
  EXPECT_EQ(first.due, at_ms(25));  // 10 + 60 * 10 / 40
  end(first.id, 20);
  const auto second = one();
  EXPECT_EQ(second.child, 1u);
  EXPECT_EQ(second.due, at_ms(100));
  EXPECT_THAT(tree.decisions().ended, IsEmpty());
  end(second.id, 60);
  EXPECT_EQ(ending().how, Ending::kAnswered);
  EXPECT_FALSE(tree.has(root));
}

TEST_F(TreeByHand, ARequestThatCannotFinishTheRestIsRejectedAtOnce) {
  const ServiceId chain = pipeline({{leaf(10), {}}, {leaf(30), {0}}});
  arrive(chain, 0, 39);
  EXPECT_THAT(started(), IsEmpty());
  const auto ended = ending();
  EXPECT_EQ(ended.how, Ending::kRejected);
  EXPECT_EQ(ended.met.run, Duration::millis(40));
  EXPECT_EQ(ended.infeasible, 0u);
}

TEST_F(TreeByHand, WhoIsRejectedBetweenStagesIsSoBeforeTheNext) {
  const ServiceId chain = pipeline({{leaf(10), {}}, {leaf(30), {0}}});
  arrive(chain, 0, 100);
  end(one().id, 71);
  EXPECT_THAT(started(), IsEmpty());
  EXPECT_EQ(ending().infeasible, 1u);
  arrive(chain, 0, 100);
  end(one().id, 99, 0, Ending::kRejected);
  EXPECT_EQ(ending().infeasible, kNoChild);
}

// Its option went away while the request was on its way there, and the plan may be back by then.
TEST_F(TreeByHand, WhoFailsWhileThePlanOfDedicatedReplicasChangesIsTriedAgain) {
  const ServiceId quick = leaf(10), slow = leaf(30);
  const ServiceId chain =
      pipeline({{.service = quick, .options = {quick, slow}, .dedicated = true}});
  tree.planned(chain, {1});
  arrive(chain, 0, 1000);
  JobId child = one().id;
  for (const std::vector<uint32_t>& away : {std::vector<uint32_t>{0}, {0}, {1}}) {
    tree.planned(chain, {0});
    tree.planned(chain, away);
    end(child, 1, 0, Ending::kFailed);
    const auto again = one();
    EXPECT_EQ(again.option, away[0]);
    child = again.id;
    tree.planned(chain, {1});
  }
  tree.planned(chain, {1});  // the same
  end(child, 2, 0, Ending::kFailed);
  EXPECT_EQ(ending().how, Ending::kFailed);
}

// Requests of the second stage wait for 50 ms whatever they run: a request whose first stage could
// start now is not worth starting.
TEST_F(TreeByHand, WaitsOfLaterStagesCountUntilNobodyHasComeForLong) {
  const ServiceId slow = leaf(30);
  const ServiceId chain = pipeline({{leaf(10), {}}, {slow, {0}}});
  double now = 0;
  for (int i = 0; i < 200; ++i, now += 1) {
    tree.arrived(JobId(1000 + i), chain, 1, Time::infinite(), at_ms(now));
    end(one().id, now + 10);
    end(one().id, now + 90);
    ending();
  }
  EXPECT_GT(tree.ahead(chain, 1, at_ms(now)).wait, Duration::millis(40));
  arrive(chain, now, now + 70);
  EXPECT_EQ(ending().how, Ending::kRejected);
  arrive(chain, now + 10'000, now + 10'070);
  EXPECT_EQ(one().child, 0u);
}

// A profile of another shape says 30 ms: runs of 90 ms are believed while they come, and a request
// may try its luck once nobody has come for long.
TEST_F(TreeByHand, RunsCorrectWhatTheLatencySays) {
  const ServiceId slow = leaf(30);
  const ServiceId chain = pipeline({{leaf(10), {}}, {slow, {0}}});
  for (int i = 0; i < 50; ++i) {
    tree.arrived(JobId(1000 + i), chain, 1, Time::infinite(), at_ms(i));
    end(one().id, i + 10);
    const JobId second = one().id;
    tree.ran(second, 1, Duration::millis(90), at_ms(i + 100));
    end(second, i + 100);
    ending();
  }
  EXPECT_NEAR(tree.ahead(slow, 1, at_ms(149)).run.millis(), 90, 1e-6);
  EXPECT_LT(tree.ahead(slow, 1, at_ms(149)).wait, Duration::millis(1));
  arrive(chain, 150, 230);
  EXPECT_EQ(ending().how, Ending::kRejected);
  arrive(chain, 10'000, 10'080);
  EXPECT_EQ(one().child, 0u);
}

TEST_F(TreeByHand, AStageThatIsRejectedMayTakeWhatTheOthersCanSpare) {
  const ServiceId chain = pipeline({{leaf(10), {}}, {leaf(30), {0}}});
  arrive(chain, 0, 100);
  end(one().id, 15, 0, Ending::kRejected);
  const auto again = one();
  EXPECT_TRUE(again.again);
  EXPECT_EQ(again.due, at_ms(70));
  end(again.id, 60, 0, Ending::kRejected);
  EXPECT_EQ(ending().how, Ending::kRejected);
}

TEST_F(TreeByHand, StagesWaitForAllThatTheyRead) {
  const ServiceId diamond =
      pipeline({{leaf(10), {}}, {leaf(10), {0}}, {leaf(20), {0}}, {leaf(10), {1, 2}}});
  EXPECT_EQ(tree.ahead(diamond, 1, at_ms(0)).run, Duration::millis(40));
  arrive(diamond, 0, 200);
  end(one().id, 10);
  const auto both = started();
  ASSERT_EQ(both.size(), 2u);
  end(both[1].id, 30);
  EXPECT_THAT(started(), IsEmpty());
  end(both[0].id, 31);
  EXPECT_EQ(one().child, 3u);
}

TEST_F(TreeByHand, ItemsThatAStageMakesGoOnAndNoneIsAnAnswer) {
  const ServiceId chain = pipeline({{leaf(10), {}}, {leaf(10), {0}}, {leaf(10), {1}}});
  arrive(chain, 0, 200);
  end(one().id, 10, 3);
  const auto second = one();
  EXPECT_EQ(second.items, 3u);
  end(second.id, 20, 0);
  EXPECT_THAT(started(), IsEmpty());
  const auto ended = ending();
  EXPECT_EQ(ended.how, Ending::kAnswered);
  EXPECT_EQ(ended.made, 0u);
}

// Of six crops each of the stages behind runs 61 ms, and not 11 as of one.
TEST_F(TreeByHand, WhatIsAheadCountsAllItemsThatWereMade) {
  const auto each = [this] { return tree.add_leaf(linear(10, 1, 64)); };
  const ServiceId chain = pipeline({{leaf(1), {}}, {each(), {0}}, {each(), {1}}});
  arrive(chain, 0, 100);
  end(one().id, 1, 6);
  EXPECT_THAT(started(), IsEmpty());
  const auto ended = ending();
  EXPECT_EQ(ended.how, Ending::kRejected);
  EXPECT_EQ(ended.met.run, Duration::millis(122));
  arrive(chain, 200, 400);
  end(one().id, 201, 6);
  EXPECT_EQ(one().due, at_ms(300.5));  // half of what is left
}

TEST_F(TreeByHand, StagesThatAnAnswerSkipsDoNotRunNorWhatReadsThem) {
  const ServiceId chain = pipeline({{leaf(10), {}}, {leaf(10), {0}}, {leaf(10), {1}}});
  arrive(chain, 0, 200, 2);
  const uint32_t second = 1;
  tree.ended(one().id, Ending::kAnswered, 2, at_ms(10), {&second, 1});
  EXPECT_THAT(started(), IsEmpty());
  const auto ended = ending();
  EXPECT_EQ(ended.how, Ending::kAnswered);
  EXPECT_EQ(ended.made, 2u);  // its items went through; what comes after it has as many
}

// Two variants of 10 and 40 ms behind a stage of 10 ms.
TEST_F(TreeByHand, APlannedVariantRunsWhereThereIsTimeForIt) {
  const ServiceId any = leaf(10), fast = leaf(10), slow = leaf(40);
  const ServiceId chain = pipeline({{leaf(10), {}}, {any, {0}, {fast, slow}}});
  tree.planned(chain, {kAnyOption, 1});
  const auto second_of = [&](double deadline_ms, double first_ends_ms) {
    arrive(chain, 0, deadline_ms);
    const auto first = one();
    EXPECT_EQ(first.option, kAnyOption);
    end(first.id, first_ends_ms);
    return one();
  };
  auto second = second_of(100, 10);
  EXPECT_EQ(second.option, 1u);
  EXPECT_EQ(second.service, slow);
  end(second.id, 70, 0, Ending::kRejected);  // once more, by any of them
  second = one();
  EXPECT_EQ(second.service, any);
  end(second.id, 90);
  EXPECT_EQ(ending().how, Ending::kAnswered);
  EXPECT_EQ(second_of(45, 10).service, any);  // the slow one would end at 50
}

// Their answers would not fit together.
TEST_F(TreeByHand, AllItemsOfAUniformStageTakeTheSameVariant) {
  const ServiceId any = leaf(10), fast = leaf(10), slow = leaf(40);
  const ServiceId stage = pipeline({{any, {}, {fast, slow}, false, true}});
  const auto asked = [&](double deadline_ms, uint32_t items) {
    arrive(stage, 0, deadline_ms, items);
    const auto child = one();
    end(child.id, 5, items);
    ending();
    return child.service;
  };
  EXPECT_EQ(asked(100, 2), slow);
  EXPECT_EQ(asked(30, 2), fast);
  EXPECT_EQ(asked(100, 1), any);
  arrive(stage, 0, 100, 2);
  end(one().id, 5, 0, Ending::kFailed);
  end(one().id, 6, 0, Ending::kFailed);  // once more, and no more
  EXPECT_EQ(ending().how, Ending::kFailed);
}

// It was unloaded, say.
TEST_F(TreeByHand, WhereAPlannedVariantFailsAnotherAnswers) {
  const ServiceId any = leaf(10);
  const ServiceId chain = pipeline({{any, {}, {leaf(10), leaf(40)}}});
  tree.planned(chain, {1});
  arrive(chain, 0, 100);
  end(one().id, 5, 0, Ending::kFailed);
  const auto again = one();
  EXPECT_EQ(again.service, any);
  EXPECT_EQ(again.option, kAnyOption);
  end(again.id, 6, 0, Ending::kFailed);
  EXPECT_EQ(ending().how, Ending::kFailed);
}

TEST_F(TreeByHand, AFailureEndsTheRequestAndWithdrawsTheOthers) {
  const ServiceId fork = pipeline({{leaf(10), {}}, {leaf(10), {}}});
  arrive(fork, 0, 200);
  const auto both = started();
  end(both[0].id, 5, 0, Ending::kFailed);
  EXPECT_THAT(tree.decisions().withdrawn, ElementsAre(both[1].id));
  EXPECT_EQ(ending().how, Ending::kFailed);
  end(both[1].id, 6);  // nobody waits for it
  EXPECT_THAT(tree.decisions().ended, IsEmpty());
}

TEST_F(TreeByHand, WithdrawingTakesTheChildrenAlong) {
  const ServiceId fork = pipeline({{leaf(10), {}}, {leaf(10), {}}});
  arrive(fork, 0, 200);
  const auto both = started();
  EXPECT_TRUE(tree.withdrawn(root));
  EXPECT_THAT(tree.decisions().withdrawn, ElementsAre(both[0].id, both[1].id));
  EXPECT_FALSE(tree.withdrawn(root));
}

TEST_F(TreeByHand, APipelineIsAStageLikeAnyOther) {
  const ServiceId inner = pipeline({{leaf(10), {}}, {leaf(20), {0}}});
  const ServiceId outer = pipeline({{leaf(10), {}}, {inner, {0}}});
  EXPECT_EQ(tree.ahead(outer, 1, at_ms(0)).run, Duration::millis(40));
  arrive(outer, 0, 80);
  end(one().id, 10);
  const auto node = one();
  EXPECT_EQ(node.service, inner);
  tree.arrived(node.id, node.service, node.items, node.due, at_ms(10), node.begun);
  const auto within = one();
  EXPECT_TRUE(within.begun);  // what the stage before it took would be lost with it
  end(within.id, 20);
  end(one().id, 40);
  const auto inside = ending();
  EXPECT_EQ(inside.id, node.id);
  end(node.id, 40, inside.made);
  EXPECT_EQ(ending().id, root);
}

// Each contains both below it: there are 2^40 paths.
TEST_F(TreeByHand, WhatManyPathsLeadToIsAskedOnce) {
  VariantsInfo info{.name = "v", .variants = {}};
  info.variants.resize(2);
  info.variants[0].accuracy = info.variants[1].accuracy = 0.8;
  ServiceId quick = leaf(10), slow = leaf(20);
  for (int level = 0; level < 40; ++level) {
    const std::vector<ServiceId> both = {quick, slow};
    quick = tree.add(std::make_unique<MembersChooser>(info, both));
    slow = pipeline({{both[0], {}}, {both[1], {}}});
  }
  EXPECT_EQ(tree.ahead(quick, 1, at_ms(0)).run, Duration::millis(10));
  EXPECT_EQ(tree.ahead(slow, 1, at_ms(0)).run, Duration::millis(20));
  arrive(slow, 0, 15);
  EXPECT_EQ(ending().how, Ending::kRejected);
}

TEST_F(TreeByHand, PartsCoverTheItemsAndTheFirstRejectionEndsThem) {
  const ServiceId parts = tree.add(std::make_unique<PartsChooser>(leaf(10, 8), 8));
  arrive(parts, 0, 200, 20);
  auto three = started();
  ASSERT_EQ(three.size(), 3u);
  EXPECT_EQ(three[2].items, 4u);
  for (const auto& part : three) end(part.id, 10, part.items);
  EXPECT_EQ(ending().made, 20u);
  arrive(parts, 0, 200, 20);
  three = started();
  end(three[1].id, 10, 0, Ending::kRejected);
  EXPECT_THAT(tree.decisions().withdrawn, ElementsAre(three[0].id, three[2].id));
  EXPECT_EQ(ending().how, Ending::kRejected);
}

// The other member is late, as nobody expected; one that serves all waits for it.
TEST_F(TreeByHand, AnEnsembleEndsAtItsDeadlineWithWhatItHas) {
  for (const bool serve_all : {false, true}) {
    EnsembleInfo info{.name = "e", .utility = {{0, 0.6, 0.7, 1}}, .share = {1}};
    info.serve_all = serve_all;
    const std::vector<ServiceId> members = {leaf(10), leaf(30)};
    arrive(tree.add(std::make_unique<MembersChooser>(info, members)), 0, 50);
    const auto asked = started();
    ASSERT_EQ(asked.size(), 2u);
    EXPECT_TRUE(tree.next_wake().is_infinite());
    end(asked[0].id, 12);
    if (serve_all) {
      EXPECT_TRUE(tree.next_wake().is_infinite());
      end(asked[1].id, 70);
      EXPECT_EQ(ending().how, Ending::kAnswered);
      continue;
    }
    EXPECT_EQ(tree.next_wake(), at_ms(50));
    tree.tick(at_ms(49));
    EXPECT_THAT(tree.decisions().ended, IsEmpty());
    tree.tick(at_ms(50));
    EXPECT_EQ(ending().how, Ending::kAnswered);
    EXPECT_THAT(std::exchange(tree.decisions().withdrawn, {}), ElementsAre(asked[1].id));
    EXPECT_TRUE(tree.next_wake().is_infinite());
  }
}

}  // namespace
}  // namespace fermata::policy
