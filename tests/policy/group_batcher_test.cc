#include <gmock/gmock.h>

#include "policy/application_hand.h"

namespace fermata::policy {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

struct FermataHand : ApplicationHand {
  FermataHand() : ApplicationHand("fermata") {}
};

// v0 knows class 0, v1 class 1; what is not known is v0's.
struct TwoClasses : FermataHand {
  ApplicationVariant v0 = variant(1, 4, 0.6, {0.9, 0.2}), v1 = variant(1, 4, 0.55, {0.2, 0.9});
  KeyId app = application({v0, v1});
};

TEST(Applications, TheVariantIsDecidedWhenAWorkerIsGranted) {
  TwoClasses h;
  const Task t = h.arrive(h.app, 0, 100);
  EXPECT_TRUE(h.quiet());
  h.worker(3);
  const Batch b = h.batch();
  EXPECT_EQ(b.key, h.v0.key);
  EXPECT_EQ(b.finish, at_ms(8));
  h.learned(t, {0, 5}, 4);  // too late
  EXPECT_TRUE(h.quiet());
}

TEST(Applications, EvidenceBeforeTheGrantCounts) {
  TwoClasses h;
  const Task t = h.arrive(h.app, 0, 100);
  h.learned(t, {0, 5}, 1);
  EXPECT_TRUE(h.quiet());
  h.worker(3);
  EXPECT_EQ(h.batch().key, h.v1.key);
}

TEST(Applications, EvidenceOfAnotherLengthIsIgnored) {
  TwoClasses h;
  h.learned(h.arrive(h.app, 0, 100), {0, 5, 0}, 1);
  h.worker(3);
  EXPECT_EQ(h.batch().key, h.v0.key);
}

// Nothing of it is left from 41 on: it could start until 11. With evidence it can wait longer.
TEST(Applications, AShortCircuitIsTakenAtItsLastMomentOnTime) {
  FermataHand h;
  const KeyId app =
      h.application({h.variant(0, 30, 0.9, {0.9, 0.9})}, {PenaltyShape::kStep}, 0.5);
  const Task task = h.arrive(app, 1, 20);
  EXPECT_EQ(h.wake_ms(), 21);  // its evidence may come until then
  h.learned(task, {3, 0}, 2);
  EXPECT_EQ(h.wake_ms(), 21);
  h.tick(20.9);
  EXPECT_THAT(h.out.short_circuited, IsEmpty());
  h.tick(21);
  ASSERT_THAT(h.out.short_circuited, SizeIs(1));
  EXPECT_EQ(h.out.short_circuited[0].job, task.job);
  EXPECT_EQ(h.scheduler->waiting_items(app), 0u);
}

// It can start until 20, and at 20 too.
TEST(Applications, AStepPenaltyDropsAfterTheLastMomentAndNotAtIt) {
  FermataHand h;
  const KeyId app = h.application({h.variant(0, 10, 0.9)});
  h.arrive(app, 0, 30);
  h.tick(20);
  EXPECT_TRUE(h.quiet());
  h.worker(20);
  EXPECT_EQ(h.batch().finish, at_ms(30));
  h.arrive(app, 20, 10);
  h.tick(20.001);
  EXPECT_THAT(h.out.dropped, SizeIs(1));
}

TEST(Applications, ASigmoidPenaltyIsServedLate) {
  FermataHand h;
  const KeyId app = h.application({h.variant(0, 10, 0.9)}, {PenaltyShape::kSigmoid});
  h.arrive(app, 0, 12);
  h.worker(5);
  EXPECT_EQ(h.batch().finish, at_ms(15));
}

TEST(Applications, AWithdrawalThatCrossesAGrantLoses) {
  TwoClasses h;
  const Task first = h.arrive(h.app, 0, 100);
  EXPECT_TRUE(h.withdraw(first, 1));
  EXPECT_EQ(h.scheduler->waiting_items(h.app), 0u);
  h.worker(2);
  EXPECT_TRUE(h.quiet());
  const Task second = h.arrive(h.app, 3, 100);
  EXPECT_EQ(h.batch().tasks[0].job, second.job);
  EXPECT_FALSE(h.withdraw(second, 4));
}

// The worker runs until 5. Two together take 6 ms, until 11.
TEST(Applications, ShareABatchWithAServiceOfTheirVariant) {
  FermataHand h;
  const ApplicationVariant v = h.variant(1, 4, 1);
  const KeyId app = h.application({v});
  const WorkerId w = h.worker();
  h.arrive(app, 0, 100);
  EXPECT_EQ(h.batch().finish, at_ms(5));
  h.arrive(v.key, 1, 90);
  h.arrive(app, 1, 100);
  h.freed(w, 5);
  const Batch b = h.batch();
  EXPECT_THAT(b.tasks, SizeIs(2));
  EXPECT_EQ(b.items, 2u);
  EXPECT_EQ(b.finish, at_ms(11));
}

TEST(Applications, NobodyIsMadeLateByWhoJoins) {
  FermataHand h;
  const ApplicationVariant v = h.variant(1, 4, 1);
  const KeyId app = h.application({v});
  const WorkerId w = h.worker();
  h.arrive(app, 0, 100);
  h.batch();
  const Task urgent = h.arrive(v.key, 1, 9.5);
  h.arrive(app, 1, 100);
  h.freed(w, 5);
  const Batch b = h.batch();
  ASSERT_THAT(b.tasks, SizeIs(1));
  EXPECT_EQ(b.tasks[0].job, urgent.job);
  EXPECT_EQ(h.scheduler->waiting_items(app), 1u);
}

// Whoever has the least slack comes first.
TEST(Applications, AreServedByUrgencyAmongOtherServices) {
  for (const bool application_first : {true, false}) {
    FermataHand h;
    const KeyId app = h.application({h.variant(0, 5, 0.9)});
    const KeyId plain = h.key(0, 5, 50, 1);
    const WorkerId w = h.worker();
    h.arrive(plain, 0, 5);
    h.batch();
    const Task a = h.arrive(app, 1, application_first ? 15 : 40);
    const Task p = h.arrive(plain, 1, application_first ? 40 : 15);
    h.freed(w, 5);
    EXPECT_EQ(h.batch().tasks[0].job, application_first ? a.job : p.job);
  }
}

TEST(Applications, WithoutADeadlineTheyRunWhenAWorkerIsThere) {
  TwoClasses h;
  h.arrive_patient(h.app, 0);
  EXPECT_TRUE(h.scheduler->next_wake().is_infinite());
  h.worker(7);
  EXPECT_EQ(h.batch().finish, at_ms(12));
}

TEST(Applications, LoadOnceWhereMemoryIsLimited) {
  FermataHand h;
  const KeyId app = h.application({h.variant(0, 5, 0.9, {}, 1, 20, 3)});
  const WorkerId w = h.limited_worker(4);
  h.arrive(app, 0, 100);
  const Batch first = h.batch();
  EXPECT_TRUE(first.load);
  EXPECT_EQ(first.finish, at_ms(25));
  h.freed(w, 25);
  h.arrive(app, 30, 100);
  const Batch second = h.batch();
  EXPECT_FALSE(second.load);
  EXPECT_EQ(second.finish, at_ms(35));
}

// The first worker runs longer than was expected; the second is of the slow type.
TEST(Applications, ABatchTakesAsLongAsItsOwnWorkerDoes) {
  FermataHand h;
  const KeyId key = h.scheduler->add_key({.name = "v",
                                          .latency = linear(0, 20),
                                          .latency_by_type = {linear(0, 5), linear(0, 20)},
                                          .variant = VariantId(0)});
  const KeyId app = h.application({{key, 0.9, {}}});
  h.worker();
  h.scheduler->add_worker(at_ms(0), h.out, 1);
  h.arrive(app, 0, 100);
  EXPECT_EQ(h.batch().finish, at_ms(5));
  h.arrive(app, 10, 100);
  const Batch b = h.batch();
  EXPECT_EQ(b.worker, WorkerId(1));
  EXPECT_EQ(b.finish, at_ms(30));
}

TEST(Applications, CanBeRemovedAndTheirKeyComesAgain) {
  TwoClasses h;
  const Task t = h.arrive(h.app, 0, 100);
  EXPECT_TRUE(h.withdraw(t, 1));
  h.scheduler->remove_key(h.app);
  const KeyId next = h.application({h.v1});
  EXPECT_EQ(next, h.app);
  h.worker(2);
  h.arrive(next, 3, 100);
  EXPECT_EQ(h.batch().key, h.v1.key);
}

TEST(Applications, TheLastProblemCanBeReplayed) {
  TwoClasses h;
  EXPECT_NE(h.scheduler->last_problem(), nullptr);
  h.arrive(h.app, 0, 100);
  h.worker(3);
  const GroupProblem& p = *h.scheduler->last_problem();
  EXPECT_EQ(p.policy, GroupPolicy::kFermata);
  EXPECT_EQ(p.now, at_ms(3));
  EXPECT_THAT(p.requests, SizeIs(1));
}

}  // namespace
}  // namespace fermata::policy
