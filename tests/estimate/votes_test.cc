#include "estimate/votes.h"

#include <gmock/gmock.h>

namespace fermata::estimate {
namespace {

using testing::ElementsAre;

TEST(Votes, AreSharedInProportionToScores) {
  EXPECT_THAT(votes({0.5, 0.25, 0.25}, 8), ElementsAre(4, 2, 2));
  EXPECT_THAT(votes({2, 1, 1}, 8), ElementsAre(4, 2, 2));
  EXPECT_THAT(votes({1, 0}, 5), ElementsAre(5, 0));
}

// 2.5 and 2.5: the first; 1.75, 1.75 and 1.5: the larger remainders.
TEST(Votes, AreWhole) {
  EXPECT_THAT(votes({0.5, 0.5}, 5), ElementsAre(3, 2));
  EXPECT_THAT(votes({0.35F, 0.35F, 0.3F}, 5), ElementsAre(2, 2, 1));
}

// e^0 : e^-1.0986 is 3 : 1.
TEST(Votes, OfLogitsAreOfTheirExponentials) {
  EXPECT_THAT(votes({0, -1.0986123F}, 4), ElementsAre(3, 1));
  EXPECT_THAT(votes({-1000, -2000}, 4), ElementsAre(4, 0));
}

TEST(Votes, NobodyHasWhatNobodyScored) {
  EXPECT_THAT(votes({0, 0}, 4), ElementsAre(0, 0));
  EXPECT_THAT(votes({}, 4), ElementsAre());
}

}  // namespace
}  // namespace fermata::estimate
