#include "policy/rivals/window_scheduler.h"

#include <gmock/gmock.h>

#include "policy/variants_hand.h"

namespace fermata::policy {
namespace {

using testing::SizeIs;

// Windows of 100 ms.
struct WindowHand : VariantsHand {
  explicit WindowHand(std::string_view policy = "grouped") : VariantsHand(policy) {}
};

struct EventHand : VariantsHand {
  explicit EventHand(std::string_view policy = "grouped") : VariantsHand(policy) {
    scheduler = *make_scheduler(policy, {.window = Duration()});
  }
};

// v1 is the better one for this data; the evidence itself is the best of all that is in time
// once the worker is busy for long.
struct Switched : WithSettings {
  using WithSettings::WithSettings;
  VariantInfo v0 = variant(1, 4, 0.9, {0.95, 0.2}), v1 = variant(1, 4, 0.8, {0.2, 0.95});
  KeyId app = service({v0, v1}, {plan::PenaltyShape::kStep}, 0.7);

  // What is decided at 100 about a request whose data was known before: at the window's end, or
  // when the worker has ended another.
  void ask(bool by_event, double now_ms, double timeout_ms) {
    const WorkerId w = worker();
    if (by_event) arrive(app, 0, 1000);
    out.clear();
    learned(arrive(app, now_ms, timeout_ms), {0, 5}, now_ms);
    by_event ? freed(w, 100) : tick(100);
  }
};

TEST(Switches, EveryPolicyLooksAtTheDataOrNot) {
  for (const std::string_view policy :
       {"sneakpeek", "grouped", "lo-priority", "lo-edf", "maxacc-edf", "fermata"}) {
    for (const Duration window : {Duration(), Duration::millis(100)}) {
      for (const bool aware : {true, false}) {
        Switched h(policy, {.window = window, .data_aware = aware, .short_circuit = false});
        h.ask(window == Duration() || policy == "fermata", 1, 1000);
        EXPECT_EQ(h.batch().key, aware ? h.v1.key : h.v0.key) << policy;
      }
    }
  }
}

// MaxAcc never takes an answer that is less accurate.
TEST(Switches, EveryPolicyShortCircuitsOrNot) {
  for (const std::string_view policy : {"sneakpeek", "grouped", "lo-priority", "lo-edf"}) {
    for (const Duration window : {Duration(), Duration::millis(100)}) {
      for (const bool allowed : {true, false}) {
        Switched h(policy, {.window = window, .short_circuit = allowed});
        h.ask(window == Duration(), 98, 3);
        EXPECT_THAT(h.out.concluded, SizeIs(allowed ? 1 : 0)) << policy;
      }
    }
  }
}

TEST(Window, NothingStartsBeforeItEnds) {
  WindowHand h;
  const KeyId app = h.service({h.variant(1, 4, 0.9)});
  h.worker();
  h.arrive(app, 10, 300);
  h.arrive(app, 20, 300);
  EXPECT_EQ(h.wake_ms(), 100);
  h.tick(99);
  EXPECT_TRUE(h.quiet());
  h.tick(100);
  const Batch b = h.batch();
  EXPECT_EQ(b.items, 2u);
  EXPECT_EQ(b.start, at_ms(100));
  EXPECT_EQ(b.finish, at_ms(106));
  EXPECT_TRUE(h.scheduler->next_wake().is_infinite());
}

TEST(Window, ABatchTakesAsLongAsItsOwnWorkersTypeDoes) {
  WindowHand h;
  const KeyId key = h.scheduler->add_key({.name = "v",
                                          .latency = LatencyByType({linear(0, 5), linear(0, 20)}),
                                          .variant = VariantId(0)});
  const KeyId app = h.service({{key, 0.9, {}}});
  h.scheduler->add_worker(at_ms(0), h.out, 1);
  h.arrive(app, 10, 300);
  h.tick(100);
  EXPECT_EQ(h.batch().finish, at_ms(120));
}

// Whose recalls are not known is as accurate as on average.
TEST(Window, EvidenceAboutVariantsWithoutRecallsChangesNothing) {
  WindowHand h("sneakpeek");
  const VariantInfo worse = h.variant(1, 4, 0.6), better = h.variant(1, 4, 0.9);
  const KeyId app = h.service({worse, better});
  h.worker();
  h.learned(h.arrive(app, 10, 300), {0, 5}, 12);
  h.tick(100);
  EXPECT_EQ(h.batch().key, better.key);
}

// Each takes 30 ms alone: the second waits for the first, what the next window brings for both.
TEST(Window, LabelsSplitNoGroupWhoseRecallsAreUnknown) {
  for (const bool known : {true, false}) {
    WindowHand h("sneakpeek");
    const auto recall = known ? std::vector<double>{0.9, 0.9} : std::vector<double>{};
    const KeyId app = h.service({h.variant(1, 4, 0.9, recall)});
    h.worker();
    h.learned(h.arrive(app, 0, 1000), {5, 0}, 0);
    h.learned(h.arrive(app, 0, 1000), {0, 5}, 0);
    h.tick(100);
    EXPECT_THAT(h.batch().tasks, SizeIs(known ? 1 : 2));
  }
}

TEST(Window, ThePlanIsExecutedInOrderAndTheBacklogCarriesOver) {
  WindowHand h;
  const KeyId app = h.service({h.variant(0, 80, 0.9, {}, 1)}, {plan::PenaltyShape::kNone});
  const WorkerId w = h.worker();
  const Task first = h.arrive(app, 10, 300), second = h.arrive(app, 20, 400);
  h.tick(100);
  EXPECT_EQ(h.batch().tasks[0].job, first.job);
  EXPECT_EQ(h.scheduler->waiting_items(app), 1u);
  const Task third = h.arrive(app, 110, 200);  // more urgent, and yet behind what is planned
  h.freed(w, 180);
  EXPECT_EQ(h.batch().tasks[0].job, second.job);
  h.tick(200);
  EXPECT_TRUE(h.quiet());
  h.freed(w, 260);
  const Batch b = h.batch();
  EXPECT_EQ(b.tasks[0].job, third.job);
  EXPECT_EQ(b.finish, at_ms(340));
}

TEST(Window, WithoutOneWhatWaitsIsPlannedAgainWheneverAWorkerIsFree) {
  EventHand h;
  const KeyId app = h.service({h.variant(1, 4, 0.9)});
  const WorkerId w = h.worker();
  h.arrive(app, 10, 300);
  EXPECT_EQ(h.batch().finish, at_ms(15));
  h.arrive(app, 11, 300);
  h.arrive(app, 12, 300);
  EXPECT_TRUE(h.quiet());
  h.freed(w, 15);
  EXPECT_EQ(h.batch().items, 2u);
}

TEST(Window, WithdrawalsFromPlannedBatchesCount) {
  WindowHand h;
  const KeyId app = h.service({h.variant(0, 30, 0.9, {}, 1)}, {plan::PenaltyShape::kNone});
  const WorkerId w = h.worker();
  const Task first = h.arrive(app, 10, 300), second = h.arrive(app, 20, 400);
  const Task third = h.arrive(app, 30, 500), never = h.arrive(app, 40, 600);
  EXPECT_TRUE(h.withdraw(never, 50));
  h.tick(100);
  h.batch();
  EXPECT_FALSE(h.withdraw(first, 101));
  EXPECT_TRUE(h.withdraw(second, 101));
  EXPECT_FALSE(h.withdraw(second, 101));
  h.freed(w, 130);
  EXPECT_EQ(h.batch().tasks[0].job, third.job);
}

// Two of three leave a batch of 4 + 3 ms: what is left takes 4 + 1.
TEST(Window, ABatchThatLostSomeTakesLess) {
  WindowHand h;
  const KeyId other = h.service({h.variant(0, 50, 0.9)}, {plan::PenaltyShape::kNone});
  const KeyId app = h.service({h.variant(1, 4, 0.9)}, {plan::PenaltyShape::kNone});
  const WorkerId w = h.worker();
  h.arrive(other, 1, 150);
  const Task a = h.arrive(app, 10, 900), b = h.arrive(app, 10, 900);
  h.arrive(app, 10, 900);
  h.tick(100);
  ASSERT_EQ(h.batch().tasks[0].key, other);
  EXPECT_TRUE(h.withdraw(a, 101));
  EXPECT_TRUE(h.withdraw(b, 101));
  h.freed(w, 150);
  const Batch batch = h.batch();
  EXPECT_EQ(batch.items, 1u);
  EXPECT_EQ(batch.finish, at_ms(155));
}

// Of a batch that nobody is left in neither run time nor load stays in the plans to come: what
// comes next is planned for 150, not behind 50 ms more, and loads the model itself.
TEST(Window, ABatchThatLostAllTakesNothing) {
  WindowHand h;
  const KeyId other = h.service({h.variant(0, 50, 0.9, {}, 1, 0, 1)}, {plan::PenaltyShape::kNone});
  const KeyId app = h.service({h.variant(0, 40, 0.9, {}, 1, 10, 1)}, {plan::PenaltyShape::kNone});
  const WorkerId w = h.limited_worker(4);
  h.arrive(other, 1, 150);
  const Task a = h.arrive(app, 10, 900);
  h.tick(100);
  ASSERT_EQ(h.batch().tasks[0].key, other);
  EXPECT_TRUE(h.withdraw(a, 101));
  h.arrive(app, 105, 900);
  h.tick(200);  // the other one is late
  h.freed(w, 210);
  const Batch batch = h.batch();
  EXPECT_TRUE(batch.load);
  EXPECT_EQ(batch.finish, at_ms(260));
  const auto last = std::get<plan::GroupProblem>(h.scheduler->last_problems().front());
  EXPECT_THAT(last.workers[0].loaded, SizeIs(1));
}

// The next batch of the same model loads it instead.
TEST(Window, TheNextBatchLoadsWhatAWithdrawnOneWouldHave) {
  WindowHand h;
  const KeyId other = h.service({h.variant(0, 50, 0.9, {}, 1, 0, 1)}, {plan::PenaltyShape::kNone});
  const KeyId app = h.service({h.variant(0, 40, 0.9, {}, 1, 10, 1)}, {plan::PenaltyShape::kNone});
  const WorkerId w = h.limited_worker(4);
  h.arrive(other, 1, 150);
  const Task a = h.arrive(app, 10, 900);
  h.arrive(app, 11, 901);
  h.tick(100);
  h.out.clear();
  EXPECT_TRUE(h.withdraw(a, 101));
  h.freed(w, 150);
  const Batch batch = h.batch();
  EXPECT_TRUE(batch.load);
  EXPECT_EQ(batch.finish, at_ms(200));
}

TEST(Window, LoadsWhereMemoryIsLimited) {
  WindowHand h;
  const KeyId app = h.service({h.variant(0, 5, 0.9, {}, 1, 20, 3)}, {plan::PenaltyShape::kNone});
  const WorkerId w = h.limited_worker(4);
  h.arrive(app, 0, 300);
  h.arrive(app, 0, 300);
  h.tick(100);
  const Batch first = h.batch();
  EXPECT_TRUE(first.load);
  EXPECT_EQ(first.finish, at_ms(125));
  h.freed(w, 125);
  const Batch second = h.batch();
  EXPECT_FALSE(second.load);
  EXPECT_EQ(second.finish, at_ms(130));
}

// A plain service takes requests of several items: 3 + 3 and 3 do not fit one batch of 6.
TEST(Window, ItemsAboveAFullBatchAreSplit) {
  WindowHand h;
  const KeyId plain = h.key(1, 4, 500, 6);
  const WorkerId w = h.worker();
  for (int i = 0; i < 3; ++i) h.arrive(plain, 10, 400, 3);
  h.tick(100);
  EXPECT_EQ(h.batch().items, 6u);
  h.freed(w, 110);
  const Batch rest = h.batch();
  EXPECT_EQ(rest.items, 3u);
  EXPECT_EQ(rest.finish, at_ms(117));
}

TEST(Window, ShortCircuitsAreAnsweredAtItsEnd) {
  WindowHand h("sneakpeek");
  const KeyId app =
      h.service({h.variant(0, 30, 0.9, {0.9, 0.9})}, {plan::PenaltyShape::kStep}, 0.5);
  h.worker();
  h.learned(h.arrive(app, 90, 20), {3, 0}, 91);
  h.tick(100);
  EXPECT_THAT(h.out.bound, SizeIs(0));
  EXPECT_THAT(h.out.concluded, SizeIs(1));
}

}  // namespace
}  // namespace fermata::policy
