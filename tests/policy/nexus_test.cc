#include <gmock/gmock.h>

#include "hand.h"
#include "policy/rivals/nexus_placement.h"

namespace fermata::policy {
namespace {

// ℓ(b) = b + 5 ms.
const auto kLatency = linear(1, 5);

TEST(NexusPlacement, FillsWholeWorkersWhereOneModelNeedsThem) {
  const auto placed = place_by_rate({{100, kLatency.get(), Duration::millis(30)}}, 4);
  double rate = 0;
  std::vector<uint32_t> workers;
  for (const Placed& p : placed) {
    workers.push_back(p.worker);
    rate += p.rate_rps;
  }
  EXPECT_THAT(workers, testing::ElementsAre(0, 1, 2, 3));
  // A worker of its own runs b = 10 in ℓ(10) = 15 ms, half the SLO: 666.7/s each.
  EXPECT_NEAR(rate, 4 * 10 / 0.015, 1);
}

TEST(NexusPlacement, EveryKeyHasAPlaceAndRatesKeepTheirProportion) {
  const auto placed = place_by_rate({{300, kLatency.get(), Duration::millis(30)},
                                     {100, kLatency.get(), Duration::millis(60)},
                                     {0, kLatency.get(), Duration::millis(60)}},
                                    3);
  double rate[3] = {};
  for (const Placed& p : placed) {
    EXPECT_LT(p.worker, 3u);
    rate[p.key] += p.rate_rps;
  }
  EXPECT_NEAR(rate[0] / rate[1], 3, 1e-6);
  EXPECT_GT(rate[2], 0);
}

// As in a server: no rates are known, and its clock began long ago.
TEST(Nexus, SpreadsModelsWhoseRatesAreNotKnownYet) {
  Hand hand("nexus");
  std::vector<KeyId> keys;
  for (int k = 0; k < 4; ++k) keys.push_back(hand.key(1, 5, 100));
  for (int w = 0; w < 4; ++w) hand.worker();
  for (const KeyId key : keys) hand.arrive(key, 60'000, 100);
  EXPECT_THAT(hand.out.bound, testing::SizeIs(4));  // each on a worker of its own
  hand.out.clear();
}

// The first model gets all the requests of an epoch, so from then on most of the pool.
TEST(Nexus, PlacesByTheRatesOfTheLastEpoch) {
  Hand hand("nexus");
  const KeyId busy = hand.key(1, 5, 100), idle = hand.key(1, 5, 100);
  for (int w = 0; w < 4; ++w) hand.worker();
  hand.arrive(idle, 1'000, 100);
  hand.freed(hand.batch().worker, 1'006);
  for (double now = 1'010; now < 32'000; now += 10) {
    hand.arrive(busy, now, 100);
    hand.freed(hand.batch().worker, now + 6);
    hand.tick(now + 6);
  }
  hand.tick(32'010);
  for (int i = 0; i < 3; ++i) hand.arrive(busy, 32'020, 100);
  EXPECT_THAT(hand.out.bound, testing::SizeIs(3));
}

TEST(Nexus, DealsInTurnAndNeverMovesWork) {
  Hand hand("nexus");
  const KeyId key = hand.key(1, 5, 100);
  hand.worker();
  hand.worker();
  hand.arrive(key, 0, 100);
  EXPECT_EQ(hand.batch().worker, WorkerId(0));
  hand.arrive(key, 0, 100);
  EXPECT_EQ(hand.batch().worker, WorkerId(1));
  // Both run until 6; the next two go to one queue each.
  hand.arrive(key, 1, 100);
  hand.arrive(key, 1, 100);
  EXPECT_TRUE(hand.quiet());
  hand.freed(WorkerId(0), 6);
  EXPECT_EQ(hand.batch().items, 1u);
}

TEST(Nexus, AWorkerGoesRoundItsModels) {
  Hand hand("nexus");
  const KeyId a = hand.key(1, 5, 100), b = hand.key(1, 5, 100);
  hand.worker();
  hand.arrive(a, 0, 100);
  EXPECT_EQ(hand.batch().key, a);
  hand.arrive(a, 1, 20);  // more urgent, but not its turn
  hand.arrive(b, 2, 100);
  hand.freed(WorkerId(0), 6);
  EXPECT_EQ(hand.batch().key, b);
  hand.freed(WorkerId(0), 12);
  EXPECT_EQ(hand.batch().key, a);
}

// A client whose every request has another shape: a model comes and goes for each.
TEST(Nexus, ModelsThatComeAndGoLeaveNothingBehind) {
  Hand hand("nexus");
  const KeyId stays = hand.key(1, 5, 100);
  const WorkerId worker = hand.worker();
  const KeyId first = hand.key(1, 5, 100);
  for (int i = 0; i < 50; ++i) {
    const double now_ms = 20.0 * i;
    const KeyId key = i == 0 ? first : hand.key(1, 5, 100);
    EXPECT_EQ(key, first);
    hand.arrive(key, now_ms, 100);
    EXPECT_EQ(hand.batch().key, key);
    hand.freed(worker, now_ms + 6);
    hand.scheduler->remove_key(key);
    hand.scheduler->set_delay_bound({});
    hand.arrive(stays, now_ms + 10, 100);
    EXPECT_EQ(hand.batch().key, stays);
    hand.freed(worker, now_ms + 16);
  }
}

}  // namespace
}  // namespace fermata::policy
