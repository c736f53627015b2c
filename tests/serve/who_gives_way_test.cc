// Which connection gives way to a newcomer.
#include "serve/net/who_gives_way.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace fermata::serve {
namespace {

class WhoGivesWayTest : public ::testing::Test {
 protected:
  using Moment = WhoGivesWay::Moment;
  struct Shown {
    std::string name;
    InTheWay how;
    const AddressCounts::Place* place;
    double opened_s_ago = 60, unused_s = 0;  // both until now
  };

  // A connection's place.
  const AddressCounts::Place& of(const std::string& address) {
    return *places_.emplace_back(std::make_unique<AddressCounts::Place>(counts_, address));
  }
  static Moment at(double s) {
    return Moment(std::chrono::duration_cast<Moment::duration>(std::chrono::duration<double>(s)));
  }
  // Its name; none: nobody's.
  static std::string first(const AddressCounts::Place* newcomer, const std::vector<Shown>& shown,
                           bool any_place = true) {
    constexpr double kNow = 1000;
    WhoGivesWay all(newcomer, any_place, at(kNow));
    std::string first;
    for (const Shown& each : shown) {
      if (all.is_first(
              {each.how, *each.place, at(kNow - each.opened_s_ago), at(kNow - each.unused_s)})) {
        first = each.name;
      }
    }
    return first;
  }

  const std::shared_ptr<AddressCounts> counts_ = std::make_shared<AddressCounts>();
  std::vector<std::unique_ptr<AddressCounts::Place>> places_;
};

TEST_F(WhoGivesWayTest, ABusyOneGoesBeforeIdleOnesOnlyWhereItsAddressHasMore) {
  const auto &same = of("same"), &many = of("many"), &newcomer = of("new"), &own = of("new");
  of("same"), of("many"), of("many");
  const Shown busy{"busy", InTheWay::kBusy, &many}, waits{"waits", InTheWay::kWaitsLong, &many};
  const Shown idle{"idle", InTheWay::kIdle, &own}, quiet{"quiet", InTheWay::kQuiet, &same};
  EXPECT_EQ(first(&newcomer, {idle, busy, waits}), "waits");
  EXPECT_EQ(first(&newcomer, {idle, busy}), "busy");
  EXPECT_EQ(first(&newcomer, {idle, busy, quiet}), "quiet");
  const auto& third = of("new");
  EXPECT_EQ(first(&third, {busy, idle}), "idle");
  EXPECT_EQ(first(&third, {busy}), "");
  EXPECT_EQ(first(&third, {waits}), "waits");
  EXPECT_EQ(first(nullptr, {busy}), "");
  EXPECT_EQ(first(nullptr, {idle, waits}), "idle");
}

TEST_F(WhoGivesWayTest, WhoHasFewerGivesWayLastAndKeepsWhatIsInUse) {
  const auto &one = of("few"), &newcomer = of("many"), &own = of("many");
  for (const InTheWay how :
       {InTheWay::kOver, InTheWay::kNeverAsked, InTheWay::kQuiet, InTheWay::kSlow}) {
    EXPECT_EQ(first(&newcomer, {{"few", how, &one}}), "few");
    EXPECT_EQ(first(&newcomer, {{"new", how, &one, 0.5}}), "");
    const Shown few{"few", how, &one}, busy{"busy", InTheWay::kBusy, &own};
    const std::string gives_way = how == InTheWay::kOver ? "few" : "own";
    for (const InTheWay others : {InTheWay::kQuiet, InTheWay::kIdle, InTheWay::kWaitsLong}) {
      EXPECT_EQ(first(&newcomer, {few, {"own", others, &own}}), gives_way);
    }
    EXPECT_EQ(first(&newcomer, {few, busy}), "few");
  }
  for (const InTheWay how :
       {InTheWay::kJustCame, InTheWay::kLongUpload, InTheWay::kIdle, InTheWay::kWaitsLong}) {
    EXPECT_EQ(first(&newcomer, {{"few", how, &one}}), "");
  }
}

TEST_F(WhoGivesWayTest, OnesOwnAddressPaysFirstWhereItHasOneThatNeverAsked) {
  const auto &many = of("many"), &newcomer = of("new"), &own = of("new");
  of("many"), of("many");
  const Shown theirs{"theirs", InTheWay::kOver, &many};
  EXPECT_EQ(first(&newcomer, {theirs, {"own", InTheWay::kNeverAsked, &own}}), "own");
  EXPECT_EQ(first(&newcomer, {theirs, {"own", InTheWay::kQuiet, &own}}), "theirs");
}

TEST_F(WhoGivesWayTest, IdleForASecondGoesBeforeWhoJustCameWhereItsAddressIsTheNewcomersOrHasMore) {
  const auto &many = of("many"), &newcomer = of("new"), &own = of("new"), &one = of("few");
  of("many"), of("many");
  const Shown came{"came", InTheWay::kJustCame, &own, 0.05};
  EXPECT_EQ(first(&newcomer, {came, {"idle", InTheWay::kIdle, &own, 60, 0.9}}), "came");
  EXPECT_EQ(first(&newcomer, {came, {"idle", InTheWay::kIdle, &own, 60, 1}}), "idle");
  EXPECT_EQ(first(&newcomer, {came, {"idle", InTheWay::kIdle, &many, 60, 1}}), "idle");
  EXPECT_EQ(first(&newcomer, {came, {"idle", InTheWay::kIdle, &one, 60, 9}}), "came");
}

TEST_F(WhoGivesWayTest, WhereTheLastPlacesAreOthersOnlyOnesOwnAndWhoHasMoreGiveWay) {
  const auto &few = of("few"), &same = of("same"), &newcomer = of("new"), &own = of("new");
  const auto& many = of("many");
  of("same"), of("many"), of("many");
  for (const InTheWay how : {InTheWay::kOver, InTheWay::kNeverAsked, InTheWay::kQuiet,
                             InTheWay::kSlow, InTheWay::kIdle}) {
    EXPECT_EQ(first(&newcomer, {{"few", how, &few}, {"same", how, &same}}, false), "");
    EXPECT_NE(first(&newcomer, {{"few", how, &few}, {"same", how, &same}}, true), "");
    EXPECT_EQ(first(&newcomer, {{"own", how, &own}}, false), "own");
    EXPECT_EQ(first(&newcomer, {{"many", how, &many}}, false), "many");
  }
  for (const InTheWay how : {InTheWay::kLongUpload, InTheWay::kWaitsLong, InTheWay::kBusy}) {
    EXPECT_EQ(first(&newcomer, {{"many", how, &many}}, false), "");
    EXPECT_EQ(first(&newcomer, {{"many", how, &many}}, true), "many");
  }
}

TEST_F(WhoGivesWayTest, ThatNoneWasFoundLastsForThatAddressAndLongerTheMoreThereAre) {
  const Entrance::Moment now(std::chrono::hours(1));
  const auto &newcomer = of("new"), &next = of("new");
  Entrance entrance;
  int searches = 0;
  const auto lets_in = [&](const AddressCounts::Place& place, std::chrono::microseconds later,
                           bool is_there) {
    return entrance.lets_in(place, 1000, 1000, now + later, [&](bool any_place, auto /*at*/) {
      ++searches;
      return any_place && is_there;
    });
  };
  EXPECT_TRUE(lets_in(newcomer, {}, true));
  EXPECT_FALSE(lets_in(newcomer, {}, false));
  EXPECT_FALSE(lets_in(next, std::chrono::microseconds(999), true));
  EXPECT_EQ(searches, 2);
  for (const std::string address : {"a", "b", "c", "d", "e", "f", "g", "h"}) {
    EXPECT_TRUE(lets_in(of(address), {}, true));
    EXPECT_FALSE(lets_in(next, {}, true));
  }
  EXPECT_TRUE(lets_in(next, std::chrono::microseconds(1000), true));
}

TEST_F(WhoGivesWayTest, TheLastSixteenthOfThePlacesIsForAddressesThatHaveAtMostAsMany) {
  const auto &one = of("a"), &two = of("b");
  of("b"), of("b");
  Entrance entrance;
  bool searched_any = true;
  const auto make_place = [&](bool any_place, auto /*at*/) {
    searched_any = any_place;
    return false;
  };
  EXPECT_TRUE(entrance.lets_in(one, 31, 32, {}, make_place));
  EXPECT_TRUE(entrance.lets_in(two, 29, 32, {}, make_place));
  EXPECT_FALSE(entrance.lets_in(two, 30, 32, {}, make_place));
  EXPECT_FALSE(searched_any);
  EXPECT_FALSE(entrance.lets_in(one, 32, 32, {}, make_place));
  EXPECT_TRUE(searched_any);
}

TEST_F(WhoGivesWayTest, OfEachKindItIsTheLongestUnusedOfTheAddressThatHasMost) {
  const auto &one = of("few"), &many = of("many"), &newcomer = of("new");
  of("many");
  EXPECT_EQ(first(&newcomer, {{"few", InTheWay::kQuiet, &one, 60, 50},
                              {"used", InTheWay::kQuiet, &many, 60, 20},
                              {"unused", InTheWay::kQuiet, &many, 60, 30},
                              {"too", InTheWay::kQuiet, &many, 60, 25}}),
            "unused");
}

}  // namespace
}  // namespace fermata::serve
