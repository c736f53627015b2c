#include <gmock/gmock.h>

#include "hand.h"
#include "policy/batch/nexus_placement.h"

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

}  // namespace
}  // namespace fermata::policy
