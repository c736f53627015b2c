#include <gmock/gmock.h>

#include "policy/ensemble_hand.h"

namespace fermata::policy {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

const std::vector<std::vector<double>> kTwo = {{0, 0.6, 0.7, 1}};

// Two models of 10 ms each, which one worker runs one after the other.
TEST(EnsembleScheduler, AWorkerRunsTheModelsThatItSharesInTurn) {
  for (const std::string_view policy : {"original", "static"}) {
    for (const double timeout_ms : {15, 25}) {
      EnsembleHand h(policy);
      const KeyId e = h.ensemble({10, 10}, kTwo, 0, false, 3);
      h.worker();
      h.arrive(e, 0, timeout_ms);
      h.run_until(100);
      EXPECT_THAT(h.dropped, SizeIs(timeout_ms < 20 ? 1 : 0)) << policy;
      EXPECT_THAT(h.concluded, SizeIs(timeout_ms < 20 ? 0 : 1)) << policy;
    }
  }
}

// For one of them there is time, so it is the better one; alone and, where all are planned
// together, behind others.
TEST(EnsembleScheduler, PlansOfOneWorkerAreOfOneWorker) {
  for (const std::string_view policy : {"schemble", "greedy-edf", "greedy-fifo", "greedy-sjf"}) {
    EnsembleHand h(policy);
    const KeyId e = h.ensemble({10, 10}, kTwo);
    h.worker();
    h.arrive(e, 0, 15);
    h.note();
    for (int i = 0; i < 3; ++i) h.arrive(e, 1, 39), h.note();
    h.run_until(100);
    EXPECT_EQ(h.concluded.at(0).ran, 2u) << policy;
    if (policy != "schemble") continue;
    ASSERT_THAT(h.concluded, SizeIs(4));
    for (const Concluded& c : h.concluded) EXPECT_EQ(c.ran, 2u);
  }
}

// Tasks of ten items take 14 ms, of one 5: what cannot end in time does not start.
TEST(EnsembleScheduler, TasksOfManyItemsTakeLonger) {
  for (const std::string_view policy : {"schemble", "greedy-edf", "original", "selected"}) {
    EnsembleHand h(policy);
    const KeyId model = h.key(1, 4, 100, 16);
    h.worker();
    h.arrive(model, 0, 20, 10);
    h.arrive(model, 0, 16, 10);
    h.arrive(model, 0, 20, 1);
    h.note();
    EXPECT_EQ(h.running.begin()->first, at_ms(14)) << policy;
    h.run_until(100);
    EXPECT_THAT(h.dropped, SizeIs(1)) << policy;
    EXPECT_EQ(h.dropped.at(0).task.items, 10u);
    EXPECT_EQ(h.dropped.at(0).run, Duration::millis(14));
  }
}

// Its model has no answer, and no other one has the time: it has run, so it is no rejection.
TEST(EnsembleScheduler, AQueryThatWasInABatchIsConcluded) {
  for (const std::string_view policy : {"static", "schemble", "fermata"}) {
    EnsembleHand h(policy);
    const KeyId e = h.ensemble({10, 50}, kTwo, 0, false, 1);
    const WorkerId w = h.worker();
    h.worker();
    const Task task = h.arrive(e, 0, 40);
    ASSERT_THAT(h.out.bound, SizeIs(1)) << policy;
    h.note();
    h.running.clear();
    h.scheduler->ended({w, {&task, 1}}, at_ms(10), h.out);
    h.now = at_ms(10);
    h.run_until(100);
    EXPECT_THAT(h.dropped, IsEmpty()) << policy;
    ASSERT_THAT(h.concluded, SizeIs(1)) << policy;
    EXPECT_EQ(h.concluded[0].ran, 0u);
  }
}

}  // namespace
}  // namespace fermata::policy
