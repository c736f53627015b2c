#include <set>

#include "hand.h"

namespace fermata::policy {
namespace {

// ℓ(b) = b + 5 ms throughout.

TEST(StartRule, ABatchThatWasHeldSaysSinceWhenItWantedToStart) {
  Hand hand("deferred");
  const KeyId key = hand.key(1, 5, 12);
  hand.worker();
  hand.arrive(key, 0, 12);
  hand.tick(5);  // 12 - ℓ(2)
  const Batch batch = hand.batch();
  EXPECT_EQ(batch.rule, StartRule::kLatestStart);
  EXPECT_EQ(batch.wanted, at_ms(5));
}

TEST(StartRule, ABatchThatWaitedForAWorkerWantedToStartBefore) {
  Hand hand("deferred");
  const KeyId a = hand.key(1, 5, 30), b = hand.key(1, 5, 30);
  const WorkerId worker = hand.worker();
  hand.arrive(a, 0, 8);
  hand.tick(1);
  EXPECT_EQ(hand.batch().key, a);  // until 7
  hand.arrive(b, 2, 11);           // 13 - ℓ(2) = 6
  hand.tick(6);
  EXPECT_TRUE(hand.quiet());
  hand.freed(worker, 7);
  const Batch batch = hand.batch();
  EXPECT_EQ(batch.rule, StartRule::kLatestStart);
  EXPECT_EQ(batch.wanted, at_ms(6));
  EXPECT_EQ(batch.start, at_ms(7));
}

TEST(StartRule, AFullBatchDoesNotWait) {
  for (const char* policy : {"deferred", "fermata"}) {
    Hand hand(policy);
    const KeyId key = hand.key(1, 5, 100, 2);
    hand.worker();
    hand.out.clear();
    Task second = hand.task(key, 1, 100, 2);  // two items at once
    hand.scheduler->nominate(second, at_ms(1), hand.out);
    const Batch batch = hand.batch();
    EXPECT_EQ(batch.rule, StartRule::kFullBatch) << policy;
    EXPECT_EQ(batch.wanted, at_ms(1)) << policy;
  }
}

TEST(StartRule, EagerPoliciesHoldNothing) {
  Hand hand("eager");
  const KeyId key = hand.key(1, 5, 100);
  hand.worker();
  hand.arrive(key, 3, 100);
  EXPECT_EQ(hand.batch().rule, StartRule::kAtOnce);
}

TEST(StartRule, ALoneRequestExpectsNobody) {
  Hand hand("fermata");
  const KeyId key = hand.key(1, 5, 100);
  hand.worker();
  hand.arrive(key, 3, 100);
  EXPECT_EQ(hand.batch().rule, StartRule::kNoMatesExpected);
}

TEST(StartRule, WithoutDeadlinesItIsBestEffort) {
  Hand hand("fermata");
  const KeyId key = hand.key(1, 5, 100);
  hand.worker();
  hand.arrive_best_effort(key, 3);
  EXPECT_EQ(hand.batch().rule, StartRule::kBestEffort);
}

TEST(StartRule, EachHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (int rule = 0; rule <= static_cast<int>(StartRule::kChosen); ++rule) {
    names.insert(name(static_cast<StartRule>(rule)));
  }
  EXPECT_EQ(names.size(), 10u);
}

}  // namespace
}  // namespace fermata::policy
