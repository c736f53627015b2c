#include "tune/rule_choice.h"

#include <gmock/gmock.h>

#include "base/random.h"
#include "by_hand.h"
#include "tune/load_watch.h"
#include "tune/rule_tuner.h"

namespace fermata::tune {
namespace {

constexpr size_t kRows = 3;

Time second(double s) { return at_ms(s * 1e3); }

// Tries whenever it is due until then; `lost` of a row, of each of `requests` of two services.
template <class Lost>
std::vector<std::pair<double, size_t>> run(RuleChoice& choice, double until_s, double requests,
                                           Lost lost) {
  std::vector<std::pair<double, size_t>> moves;
  while (choice.next_trial() < second(until_s)) {
    const Time now = choice.next_trial();
    std::vector<Losses> by_row(kRows);
    for (size_t row = 0; row < kRows; ++row) {
      by_row[row]["often"] = {requests, requests * lost(row, now)};
      by_row[row]["rare"] = {2, 0};
    }
    if (const auto row = choice.tried(by_row, now)) {
      moves.emplace_back((now - Time()).seconds(), *row);
    }
  }
  return moves;
}

TEST(RuleChoiceTest, MovesOnceToTheRowThatLosesLeast) {
  RuleChoice choice(kRows, 0, Time());
  const auto moves = run(choice, 120, 1000, [](size_t row, Time) {
    return row == 0 ? 0.1 : row == 1 ? 0.02 : 0.05;
  });
  ASSERT_EQ(moves.size(), 1u);
  EXPECT_EQ(moves[0].second, 1u);
  EXPECT_LE(moves[0].first, 10);
  EXPECT_NEAR(*choice.loss(1), 0.02, 0.005);
  EXPECT_NEAR(*choice.loss(0), 0.1, 0.02);
}

TEST(RuleChoiceTest, StaysWhereNoRowIsBetterByMuch) {
  RuleChoice choice(kRows, 0, Time());
  EXPECT_TRUE(
      run(choice, 300, 1000, [](size_t row, Time) { return row == 0 ? 0.02 : 0.019; }).empty());
}

// A service of two requests that are both lost under one row says little about it.
TEST(RuleChoiceTest, AFewRequestsDoNotDecide) {
  RuleChoice choice(kRows, 0, Time());
  std::vector<Losses> by_row(kRows);
  for (size_t row = 0; row < kRows; ++row) by_row[row]["often"] = {1000, 10};
  by_row[0]["rare"] = {2, 2};
  by_row[1]["rare"] = by_row[2]["rare"] = {2, 0};
  EXPECT_FALSE(choice.tried(by_row, second(12)));
}

TEST(RuleChoiceTest, ManyRequestsOfTheWorstServiceDoDecide) {
  RuleChoice choice(kRows, 0, Time());
  std::vector<Losses> by_row(kRows);
  for (size_t row = 0; row < kRows; ++row) {
    by_row[row]["often"] = {100'000, row == 2 ? 1500.0 : 1000.0};
    by_row[row]["rarer"] = {600, row == 2 ? 6.0 : 60.0};
  }
  EXPECT_EQ(choice.tried(by_row, second(12)), 2u);
}

// Rows that are best by turns, and a load that is said to be another every few seconds.
TEST(RuleChoiceTest, NeverMovesTwiceInTenSeconds) {
  Random random(1);
  RuleChoice choice(kRows, 0, Time());
  double last = -10;
  size_t moves = 0;
  for (double t = 0; t < 600; t += 3) {
    const auto moved = run(choice, t, 5000, [&](size_t, Time) { return 0.2 * random.uniform(); });
    for (const auto& [at, row] : moved) {
      EXPECT_GE(at - last, 10);
      last = at;
      ++moves;
    }
    if (random.uniform() < 0.3) choice.forget(second(t), second(t));
  }
  EXPECT_GE(moves, 5u);
  EXPECT_EQ(choice.moves(), moves);
}

TEST(RuleChoiceTest, TriesSoonAfterTheLoadHasChanged) {
  RuleChoice choice(kRows, 0, Time());
  run(choice, 100, 1000, [](size_t, Time) { return 0.01; });
  EXPECT_GE(choice.next_trial(), second(100));
  choice.forget(second(99), second(101));
  EXPECT_LE(choice.next_trial(), second(104));
  EXPECT_FALSE(choice.loss(0));
}

// Also where loads change faster than trials pay for themselves.
TEST(RuleChoiceTest, WhatIsPutOffForItsCostStaysSoWhereTheLoadChanges) {
  RuleChoice choice(kRows, 0, Time());
  choice.put_off(second(50));
  choice.forget(second(10), second(12));
  EXPECT_EQ(choice.next_trial(), second(50));
}

TEST(RuleTunerTest, ALoadThatBeginsLaterThanTheServerIsTriedAsLateAfterIt) {
  RuleTuner tuner((Time()));
  EXPECT_TRUE(tuner.due(second(100)));  // nothing has come, and what is tried is nothing
  tuner.came(0, second(101), Duration::millis(50));
  EXPECT_FALSE(tuner.due(second(102)));
  EXPECT_EQ(tuner.choice().next_trial(), second(106));
}

struct Kind {
  double rates[2] = {100, 20};
  double slo_ms = 50, shape = 1;
};

// When a load that is of one kind and then of another is said to have changed.
std::vector<double> changes(const Kind& first, const Kind& second_kind, double at_s, double until_s,
                            uint64_t seed) {
  LoadWatch watch;
  std::vector<Random> random = {Random(seed, 0), Random(seed, 1)};
  double next[2] = {0, 0};
  std::vector<double> found;
  double look = 1;
  while (std::min(next[0], next[1]) < until_s) {
    const size_t i = next[0] <= next[1] ? 0 : 1;
    const double t = next[i];
    for (; look <= t; ++look) {
      if (watch.changed(second(look))) found.push_back(look);
    }
    const Kind& kind = t < at_s ? first : second_kind;
    watch.came(i, second(t), Duration::from_millis(kind.slo_ms));
    next[i] = t + random[i].gamma(kind.shape, 1 / kind.rates[i] / kind.shape);
  }
  return found;
}

TEST(LoadWatchTest, FindsAnotherKindOfLoadWithinFiveSeconds) {
  const Kind usual;
  const Kind swapped{.rates = {20, 100}}, tight{.slo_ms = 35}, bursty{.shape = 0.05};
  for (uint64_t seed = 0; seed < 20; ++seed) {
    for (const Kind& other : {swapped, tight, bursty}) {
      const auto found = changes(usual, other, 60, 75, seed);
      ASSERT_FALSE(found.empty()) << seed;
      EXPECT_GE(found.front(), 60) << seed;
      EXPECT_LE(found.front(), other.shape < 1 ? 70 : 65) << seed;
    }
  }
}

TEST(LoadWatchTest, TheSameKindIsNoChange) {
  size_t found = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    found += changes({}, {}, 0, 300, seed).size();
    found += changes({.shape = 0.3}, {.shape = 0.3}, 0, 300, seed).size();
  }
  EXPECT_LE(found, 2u);  // of 3 h 20 min
}

}  // namespace
}  // namespace fermata::tune
