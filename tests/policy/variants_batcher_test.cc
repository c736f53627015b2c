#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "absl/algorithm/container.h"
#include "base/document.h"
#include "base/random.h"
#include "plan/variants/group_document.h"
#include "policy/variants/any_group_planner.h"
#include "policy/variants_hand.h"

namespace fermata::policy {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

struct FermataHand : VariantsHand {
  FermataHand() : VariantsHand("fermata") {}
};

// v0 knows class 0, v1 class 1; what is not known is v0's.
struct TwoClasses : FermataHand {
  VariantInfo v0 = variant(1, 4, 0.6, {0.9, 0.2}), v1 = variant(1, 4, 0.55, {0.2, 0.9});
  KeyId app = service({v0, v1});
};

TEST(Variants, TheVariantIsDecidedWhenAWorkerIsGranted) {
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

TEST(Variants, EvidenceBeforeTheGrantCounts) {
  TwoClasses h;
  const Task t = h.arrive(h.app, 0, 100);
  h.learned(t, {0, 5}, 1);
  EXPECT_TRUE(h.quiet());
  h.worker(3);
  EXPECT_EQ(h.batch().key, h.v1.key);
}

TEST(Variants, EvidenceOfAnotherLengthIsIgnored) {
  TwoClasses h;
  h.learned(h.arrive(h.app, 0, 100), {0, 5, 0}, 1);
  h.worker(3);
  EXPECT_EQ(h.batch().key, h.v0.key);
}

// For the reason in replies: who was chosen at which price, and who had room in the batch besides.
TEST(Variants, ABatchSaysHowItWasMade) {
  FermataHand h;
  const VariantInfo slow = h.variant(0, 40, 0.9), fast = h.variant(0, 4, 0.8);
  const KeyId app = h.service({slow, fast});
  h.worker();
  h.arrive(app, 0, 1000);
  const Batch idle = h.batch();
  EXPECT_EQ(idle.key, slow.key);
  EXPECT_EQ(idle.chosen, 1u);
  ASSERT_TRUE(idle.price.has_value());
  for (int i = 0; i < 200; ++i) h.arrive(app, 1, 60);
  h.out.clear();
  h.freed(idle.worker, 40);
  const Batch crowded = h.batch();
  EXPECT_EQ(crowded.key, fast.key);
  EXPECT_TRUE(crowded.price.has_value());
  EXPECT_EQ(crowded.chosen, crowded.tasks.size());
}

// It can start until 21, and nothing is gained by waiting after that.
TEST(Variants, AShortCircuitIsTakenWhenNoVariantCanBeOnTime) {
  FermataHand h;
  const KeyId app =
      h.service({h.variant(0, 30, 0.9, {0.9, 0.9})}, {plan::PenaltyShape::kStep}, 0.5);
  const Task task = h.arrive(app, 1, 50);
  EXPECT_EQ(h.wake_ms(), 51);  // its evidence may come until then
  h.learned(task, {3, 0}, 2);
  EXPECT_NEAR(h.wake_ms(), 21, 1e-3);
  h.tick(21);
  EXPECT_THAT(h.out.concluded, IsEmpty());
  h.tick(21.001);
  ASSERT_THAT(h.out.concluded, SizeIs(1));
  EXPECT_EQ(h.out.concluded[0].task.job, task.job);
  EXPECT_TRUE(h.out.concluded[0].at_last);
  EXPECT_EQ(h.scheduler->waiting_items(app), 0u);
}

// A late answer is worth as much: the evidence's is taken where no variant is worth its time.
TEST(Variants, WhereLatenessCostsNothingABetterVariantIsWaitedFor) {
  FermataHand h;
  const KeyId app =
      h.service({h.variant(0, 30, 0.9, {0.9, 0.9})}, {plan::PenaltyShape::kNone}, 0.5);
  const Task task = h.arrive(app, 1, 20);
  h.learned(task, {3, 0}, 2);
  h.tick(21);
  h.tick(41);
  EXPECT_THAT(h.out.concluded, IsEmpty());
  h.worker(50);
  EXPECT_EQ(h.batch().tasks[0].job, task.job);
}

TEST(Variants, WhereLatenessCostsNothingTheEvidenceAnswersInTheEnd) {
  FermataHand h;
  const KeyId app =
      h.service({h.variant(0, 30, 0.9, {0.9, 0.9})}, {plan::PenaltyShape::kNone}, 0.5);
  h.learned(h.arrive(app, 1, 20), {3, 0}, 2);
  for (double ms = 21; ms <= 201; ms += 20) h.tick(ms);
  EXPECT_THAT(h.out.concluded, SizeIs(1));
}

// The batcher of variants is made when there are some.
TEST(Variants, MayComeWhileAModelRuns) {
  FermataHand h;
  const KeyId model = h.key(0, 10, 50);
  const WorkerId worker = h.worker();
  h.arrive(model, 0, 50);
  EXPECT_EQ(h.batch().key, model);
  const KeyId app = h.service({h.variant(0, 30, 0.9)});
  h.arrive(app, 1, 100);
  h.freed(worker, 10);
  EXPECT_EQ(h.batch().tasks.size(), 1u);
  h.freed(worker, 40);
  h.arrive(app, 41, 100);
  EXPECT_EQ(h.batch().tasks.size(), 1u);
}

// It can start until 20, and at 20 too.
TEST(Variants, AStepPenaltyDropsAfterTheLastMomentAndNotAtIt) {
  FermataHand h;
  const KeyId app = h.service({h.variant(0, 10, 0.9)});
  h.arrive(app, 0, 30);
  h.tick(20);
  EXPECT_TRUE(h.quiet());
  h.worker(20);
  EXPECT_EQ(h.batch().finish, at_ms(30));
  h.arrive(app, 20, 10);
  h.tick(20.001);
  EXPECT_THAT(h.out.dropped, SizeIs(1));
}

TEST(Variants, ASigmoidPenaltyIsServedLate) {
  FermataHand h;
  const KeyId app = h.service({h.variant(0, 10, 0.9)}, {plan::PenaltyShape::kSigmoid});
  h.arrive(app, 0, 12);
  h.worker(5);
  EXPECT_EQ(h.batch().finish, at_ms(15));
}

TEST(Variants, AWithdrawalThatCrossesAGrantLoses) {
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
TEST(Variants, ShareABatchWithAServiceOfTheirVariant) {
  FermataHand h;
  const VariantInfo v = h.variant(1, 4, 1);
  const KeyId app = h.service({v});
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

TEST(Variants, NobodyIsMadeLateByWhoJoins) {
  FermataHand h;
  const VariantInfo v = h.variant(1, 4, 1);
  const KeyId app = h.service({v});
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
TEST(Variants, AreServedByUrgencyAmongOtherServices) {
  for (const bool service_first : {true, false}) {
    FermataHand h;
    const KeyId app = h.service({h.variant(0, 5, 0.9)});
    const KeyId plain = h.key(0, 5, 50, 1);
    const WorkerId w = h.worker();
    h.arrive(plain, 0, 5);
    h.batch();
    const Task a = h.arrive(app, 1, service_first ? 15 : 40);
    const Task p = h.arrive(plain, 1, service_first ? 40 : 15);
    h.freed(w, 5);
    EXPECT_EQ(h.batch().tasks[0].job, service_first ? a.job : p.job);
  }
}

TEST(Variants, WithoutADeadlineTheyRunWhenAWorkerIsThere) {
  TwoClasses h;
  h.arrive_best_effort(h.app, 0);
  EXPECT_TRUE(h.scheduler->next_wake().is_infinite());
  h.worker(7);
  EXPECT_EQ(h.batch().finish, at_ms(12));
}

// A plain service's batch of 5 ms has to start at 12, so the only worker is kept for it.
TEST(Variants, WithoutADeadlineTheyKeepNobodyWaiting) {
  FermataHand h;
  const KeyId app = h.service({h.variant(0, 20, 0.9)});
  const KeyId plain = h.key(0, 5, 50, 1);
  const WorkerId w = h.worker();
  h.arrive(plain, 0, 5);
  h.batch();
  h.arrive_best_effort(app, 1);
  const Task urgent = h.arrive(plain, 1, 16);
  h.freed(w, 5);
  EXPECT_EQ(h.batch().tasks[0].job, urgent.job);
}

// A batch of all ten would take 24 ms of the only worker; plain requests, which have 16 ms from
// their arrival on until they must start, have come lately. Six take 16 ms. One in half a second is
// not worth that.
TEST(Variants, LeaveAWorkerInTimeForServicesOfOneModel) {
  for (const double gap_ms : {10, 500, 0}) {
    FermataHand h;
    const KeyId app = h.service({h.variant(2, 4, 0.9)});
    const KeyId plain = h.key(0, 4, 20, 1);
    const WorkerId w = h.worker();
    double now = 0;
    for (int i = 0; i < 100 && gap_ms > 0; ++i, now += gap_ms) {
      h.arrive(plain, now, 20);
      h.batch();
      h.freed(w, now + 4);
    }
    h.arrive(gap_ms > 0 ? plain : app, now, 20);
    h.batch();
    for (int i = 0; i < 10; ++i) h.arrive(app, now + 1, 200 + i);
    h.freed(w, now + 6);
    const Batch b = h.batch();
    EXPECT_EQ(b.items, gap_ms == 10 ? 6u : 10u);
    EXPECT_EQ(b.finish, at_ms(now + (gap_ms == 10 ? 22 : 30)));
    EXPECT_EQ(b.tasks[0].deadline, at_ms(now + 201));
    EXPECT_EQ(h.scheduler->waiting_items(app), 10u - b.items);
  }
}

TEST(Variants, TakeLongWhereAnotherWorkerIsFreeInTime) {
  FermataHand h;
  const KeyId app = h.service({h.variant(2, 4, 0.9)});
  const KeyId plain = h.key(0, 4, 20, 1);
  const WorkerId w = h.worker();
  h.arrive(plain, 0, 20);
  h.batch();
  h.worker();
  h.arrive(plain, 0, 20);
  h.batch();
  for (int i = 0; i < 10; ++i) h.arrive(app, 1, 200 + i);
  h.freed(w, 4);
  EXPECT_EQ(h.batch().items, 10u);
}

// A late answer costs little at first. Yet the evidence can answer on time, and does.
TEST(Variants, AShortCircuitIsOnTimeHoweverLittleLatenessCosts) {
  for (const plan::PenaltyShape shape :
       {plan::PenaltyShape::kStep, plan::PenaltyShape::kLinear, plan::PenaltyShape::kSigmoid}) {
    FermataHand h;
    const KeyId app = h.service({h.variant(0, 5, 0.9, {0.95, 0.85}, 1)}, {shape}, 0.6);
    h.arrive(h.key(0, 200, 1000, 1), 0, 1000);  // has the only worker
    h.worker();
    h.batch();
    const Task task = h.arrive(app, 1, 50);
    h.learned(task, {5, 0}, 2);
    const double last = shape == plan::PenaltyShape::kStep ? 46 : 51;
    EXPECT_NEAR(h.wake_ms(), last, 1e-3);
    h.tick(last + 0.001);
    ASSERT_THAT(h.out.concluded, SizeIs(1));
    EXPECT_EQ(h.out.concluded[0].task.job, task.job);
  }
}

// At 60 the first is late, but a late answer is still of use. Whoever can be on time counts.
TEST(Variants, AreAsUrgentAsThoseWhoCanStillBeOnTime) {
  for (const double slack_ms : {20.0, 60.0}) {
    FermataHand h;
    const KeyId app = h.service({h.variant(0, 5, 0.9, {}, 1)}, {plan::PenaltyShape::kSigmoid});
    const KeyId plain = h.key(0, 5, 100, 1);
    const WorkerId w = h.worker();
    h.arrive(plain, 0, 60);
    h.batch();
    h.arrive(app, 0, 50);
    h.arrive(app, 50, 50);
    const Task p = h.arrive(plain, 59, slack_ms);
    h.freed(w, 60);
    EXPECT_EQ(h.batch().tasks[0].job == p.job, slack_ms == 20);
  }
}

// The large one is the better one on the whole, but knows little of class 1. Who planned for the
// other one joins the large one's batch only if its data is of class 0.
TEST(Variants, JoinByWhatTheirDataSays) {
  for (const bool joins : {true, false}) {
    FermataHand h;
    const VariantInfo large = h.variant(1, 4, 0.95, {0.99, 0.3}),
                      other = h.variant(1, 4, 0.7, {0.6, 0.9});
    const KeyId app = h.service({large, other});
    const KeyId urgent = h.service({h.variant(1, 3, 0.9)});
    const WorkerId w = h.worker();
    h.arrive(large.key, 0, 5);
    h.batch();
    const Task first = h.arrive(urgent, 0, 10);
    h.learned(h.arrive(app, 0, 200), joins ? Evidence{5, 0} : Evidence{0, 5}, 1);
    h.freed(w, 5);
    EXPECT_EQ(h.batch().tasks[0].job, first.job);
    h.arrive(large.key, 6, 30);
    h.freed(w, 9);
    EXPECT_THAT(h.batch().tasks, SizeIs(joins ? 2 : 1));
  }
}

// Its end had been due at 20 of a 10 ms run; it now takes 25 and cannot be on time at all.
TEST(Variants, AreDroppedByTheLatencyAsItIsKnownNow) {
  FermataHand h;
  const VariantInfo v = h.variant(0, 10, 0.9);
  const Task task = h.arrive(h.service({v}), 0, 30);
  EXPECT_NEAR(h.wake_ms(), 20, 1e-3);
  h.scheduler->update_latency(v.key, linear(0, 25), at_ms(1), h.out);
  EXPECT_NEAR(h.wake_ms(), 5, 1e-3);
  h.tick(5.001);
  ASSERT_THAT(h.out.dropped, SizeIs(1));
  EXPECT_EQ(h.out.dropped[0].run, Duration::millis(25));
  EXPECT_EQ(h.out.dropped[0].task.job, task.job);
}

TEST(Variants, LoadOnceWhereMemoryIsLimited) {
  FermataHand h;
  const KeyId app = h.service({h.variant(0, 5, 0.9, {}, 1, 20, 3)});
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
TEST(Variants, ABatchTakesAsLongAsItsOwnWorkerDoes) {
  FermataHand h;
  const KeyId key = h.scheduler->add_key({.name = "v",
                                          .latency = LatencyByType({linear(0, 5), linear(0, 20)}),
                                          .variant = VariantId(0)});
  const KeyId app = h.service({{key, 0.9, {}}});
  h.worker();
  h.scheduler->add_worker(at_ms(0), h.out, 1);
  h.arrive(app, 0, 100);
  EXPECT_EQ(h.batch().finish, at_ms(5));
  h.arrive(app, 10, 100);
  const Batch b = h.batch();
  EXPECT_EQ(b.worker, WorkerId(1));
  EXPECT_EQ(b.finish, at_ms(30));
}

TEST(Variants, CanBeRemovedAndTheirKeyComesAgain) {
  TwoClasses h;
  const Task t = h.arrive(h.app, 0, 100);
  EXPECT_TRUE(h.withdraw(t, 1));
  h.scheduler->remove_key(h.app);
  const KeyId next = h.service({h.v1});
  EXPECT_EQ(next, h.app);
  h.worker(2);
  h.arrive(next, 3, 100);
  EXPECT_EQ(h.batch().key, h.v1.key);
}

// The document of each of the last 100 decisions plans the batch that was bound.
TEST(Variants, EveryDecisionThatIsKeptCanBeReplayed) {
  for (const std::string_view policy : {"fermata", "eager", "sneakpeek", "grouped"}) {
    Random random(5);
    WithSettings h(policy, {.window = Duration()});
    const KeyId app =
        h.service({h.variant(1, 4, 0.7, {0.9, 0.5}), h.variant(3, 9, 0.9, {0.9, 0.9})});
    for (int w = 0; w < 9; ++w) h.worker();
    std::vector<std::pair<Time, Batch>> ends;
    std::vector<Batch> bound;
    const auto note = [&] {
      for (const Batch& b : h.out.bound) {
        ends.emplace_back(b.finish, b);
        bound.push_back(b);
      }
      h.out.clear();
    };
    for (int i = 0; i < 1500; ++i) {
      const double now = i * 0.5;
      const Task task = h.arrive(app, now, 20 + 60 * random.uniform());
      note();
      const auto a = static_cast<uint32_t>(random.below(5));
      h.learned(task, {a, 4 - a}, now);
      note();
      for (size_t e = 0; e < ends.size(); ++e) {
        if (ends[e].first > at_ms(now)) continue;
        h.freed(ends[e].second.worker, now);
        ends.erase(ends.begin() + static_cast<ptrdiff_t>(e--));
        note();
      }
      h.tick(now);
      note();
    }
    const auto kept = h.scheduler->last_problems();
    ASSERT_THAT(kept, SizeIs(100));
    size_t replayed = 0;
    for (const Problem& each : kept) {
      plan::GroupProblem p = std::get<plan::GroupProblem>(each);
      for (size_t r = 0; r < p.requests.size(); ++r) p.requests[r].id = std::to_string(r);
      auto document = Document::parse(plan::to_document(p).dump());
      const auto read = document->read(plan::read_group_problem);
      ASSERT_TRUE(read.ok()) << read.status();
      AnyGroupPlanner planner;
      for (const plan::GroupBatch& planned : planner.plan(*read).batches) {
        const auto same = [&](const Batch& b) {
          return b.start == p.now && (b.finish - b.start) == planned.finish - planned.start &&
                 std::to_string(b.worker.value()) == p.workers[planned.worker].name &&
                 b.items == planned.count;
        };
        replayed += planned.start - read->now <= Duration() && absl::c_any_of(bound, same);
      }
    }
    EXPECT_GE(replayed, 60u) << policy;
  }
}

}  // namespace
}  // namespace fermata::policy
