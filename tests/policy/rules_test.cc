#include "policy/rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/document.h"
#include "hand.h"
#include "policy/rules_document.h"

namespace fermata::policy {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const Rules& kDefault = *policy_rules("fermata");

TEST(Rules, EachIsSwitchedOffByItself) {
  for (const Rule& rule : all_rules()) {
    Rules rules = kDefault;
    ASSERT_TRUE(set_rule(rules, std::string(rule.name) + "=off").ok()) << rule.name;
    std::visit([&](auto field) { EXPECT_EQ(rules.*field, 0) << rule.name; }, rule.field);
    std::visit([&](auto field) { rules.*field = kDefault.*field; }, rule.field);
    EXPECT_EQ(rules, kDefault) << "another rule has changed beside " << rule.name;
  }
}

TEST(Rules, AllAreInTheTable) {
  Rules rules = kDefault;
  for (const Rule& rule : all_rules())
    ASSERT_TRUE(set_rule(rules, std::string(rule.name) + "=off").ok());
  EXPECT_EQ(rules, Rules()) << "a rule has no entry, and no name";
}

TEST(Rules, ChangesMakeOneOfTheOther) {
  for (const PolicyRow& row : policy_rows()) {
    Rules rules = kDefault;
    for (const std::string& change : rule_changes(kDefault, row.rules)) {
      ASSERT_TRUE(set_rule(rules, change).ok()) << change;
    }
    EXPECT_EQ(rules, row.rules) << row.policy;
  }
  EXPECT_THAT(rule_changes(kDefault, kDefault), IsEmpty());
}

TEST(Rules, AChangeThatMakesNoSenseSaysWhatWouldDo) {
  Rules rules;
  const auto error = [&](std::string_view change) {
    return std::string(set_rule(rules, change).message());
  };
  EXPECT_THAT(error("holt=off"), HasSubstr("no rule is called 'holt'"));
  EXPECT_THAT(error("holt=off"), HasSubstr("margin, gain"));
  EXPECT_EQ(error("hold"), "rule hold is '', expected on or off");
  EXPECT_EQ(error("hold=0.5"), "rule hold is '0.5', expected on or off");
  EXPECT_EQ(error("margin=on"),
            "rule margin is 'on', expected off or a number from 0 to 1 (share of the run time)");
  EXPECT_THAT(error("margin=-1"), HasSubstr("'-1'"));
  EXPECT_THAT(error("margin=nan"), HasSubstr("'nan'"));
  EXPECT_THAT(error(""), HasSubstr("no rule is called ''"));
  EXPECT_EQ(rules, Rules());
}

TEST(Rules, ArePartOfADocument) {
  auto document = *Document::parse(R"({"hold": false, "margin": 0.25, "enough": true})");
  const auto rules = *document.read([](Reader root) { return read_rules(root, "fermata"); });
  EXPECT_THAT(rule_changes(kDefault, *rules), ElementsAre("enough=on", "margin=0.25", "hold=off"));
  EXPECT_EQ(write_rules(*rules, "fermata").dump(), R"({"enough":true,"margin":0.25,"hold":false})");
}

TEST(Rules, OfAPolicyThatHasNoneAreAnError) {
  auto document = *Document::parse(R"({"hold": false})");
  const auto rules = document.read([](Reader root) { return read_rules(root, "nexus"); });
  EXPECT_THAT(std::string(rules.status().message()), HasSubstr("'nexus' has none"));
  EXPECT_FALSE(make_scheduler("nexus", {.rules = Rules()}).ok());
}

TEST(Rules, OnlyPoliciesThatAreRowsTakeOthers) {
  Decisions out;
  for (const std::string_view policy : all_scheduler_names()) {
    EXPECT_EQ((*make_scheduler(policy))->set_rules(Rules(), Time(), out),
              policy_rules(policy) != nullptr)
        << policy;
  }
}

// A held batch starts as soon as rules hold none, and what the policy has measured is known to the
// next rules.
TEST(Rules, ChangeForWhatWaits) {
  Hand hand("deferred");
  const KeyId key = hand.key(1, 5, 25);
  hand.worker();
  hand.arrive(key, 0, 25);
  EXPECT_TRUE(hand.quiet());
  EXPECT_TRUE(hand.scheduler->set_rules(*policy_rules("eager"), at_ms(1), hand.out));
  EXPECT_EQ(hand.batch().start, at_ms(1));
}

}  // namespace
}  // namespace fermata::policy
