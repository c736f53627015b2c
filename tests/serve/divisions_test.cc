#include "serve/config/divisions.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status.h"
#include "serve/config/config.h"

namespace fermata::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

absl::StatusOr<Config> configuration(std::string_view divisions, std::string_view services,
                                     std::string_view lock = "lock: lock") {
  const std::string text = fmt::format(
      "models: m\nworkers: {{types: [{{name: far, count: 2, remote: true}}]}}\n"
      "cluster: {{listen: 'localhost:0', {}, divisions: {}}}\nservices: {}",
      lock, divisions, services);
  return parse_config(text, "/srv");
}

constexpr char kTwo[] = "{one: [a, b], two: [c, d]}";

TEST(Divisions, ASchedulerServesItsModelsAndTheServicesThatNeedNoOthers) {
  const auto config = configuration(
      kTwo,
      "{of-c: {model: c}, of-one: {kind: variants, variants: [a, b]}, both: {kind: pipeline, "
      "stages: [{name: x, service: of-c}, {name: y, model: a}]}}");
  ASSERT_TRUE(config.ok()) << config.status();
  const auto services_of = [&](const std::string& division, std::string& lock) {
    Config own = *config;
    EXPECT_TRUE(take_division(division, own.cluster, own.engine).ok());
    EXPECT_EQ(own.engine.serves("a"), division == "one");
    EXPECT_EQ(own.engine.serves("d"), division == "two");
    EXPECT_EQ(own.engine.serves("of no division"), division == "one");
    lock = own.cluster.lock;
    std::vector<std::string> names;
    for (const auto& service : own.engine.services) names.push_back(service.name);
    return names;
  };
  std::string lock;
  EXPECT_THAT(services_of("one", lock), ElementsAre("of-one"));
  EXPECT_EQ(lock, "/srv/lock.one");
  EXPECT_THAT(services_of("two", lock), ElementsAre("of-c"));
  EXPECT_EQ(lock, "/srv/lock.two");
}

TEST(Divisions, AStreamIsOfTheOneThatHasItsVariants) {
  const auto config = configuration(
      kTwo,
      "{of-c: {model: c}, cameras: {kind: stream, slo_ms: 100, variants: [{service: of-c, "
      "input_size: 1, accuracy: 0.1}, {service: d, input_size: 2, accuracy: 0.2}]}}");
  ASSERT_TRUE(config.ok()) << config.status();
  for (const std::string division : {"one", "two"}) {
    Config own = *config;
    ASSERT_TRUE(take_division(division, own.cluster, own.engine).ok());
    EXPECT_EQ(own.engine.services.size(), division == "one" ? 0u : 2u);
  }
}

TEST(Divisions, ASchedulerHasToSayWhich) {
  Config config = *configuration(kTwo, "{}");
  for (const char* name : {"", "three"}) {
    const absl::Status wrong = take_division(name, config.cluster, config.engine);
    EXPECT_THAT(std::string(wrong.message()), HasSubstr("expected one of one, two"));
  }
  Config whole = *configuration("{}", "{}");
  EXPECT_TRUE(take_division("", whole.cluster, whole.engine).ok());
  EXPECT_FALSE(take_division("one", whole.cluster, whole.engine).ok());
}

TEST(Divisions, WhatNoSchedulerCouldServeIsAnError) {
  const auto error_of = [](std::string_view divisions, std::string_view services) {
    return std::string(message(configuration(divisions, services).status()));
  };
  EXPECT_THAT(error_of(kTwo, "{s: {kind: variants, variants: [a, c]}}"),
              HasSubstr("service 's': expected models of one division: 'a' is in "
                        "cluster.divisions.one, 'c' in two"));
  EXPECT_THAT(
      error_of(kTwo,
               "{p: {kind: pipeline, stages: [{name: x, model: c}]}, s: {kind: stream, slo_ms: "
               "100, variants: [{service: a, input_size: 1, accuracy: 0.1}, {service: p, "
               "input_size: 2, accuracy: 0.2}]}}"),
      HasSubstr("service 's': expected models of one division: 'a' is in "
                "cluster.divisions.one, 'c' in two"));
  EXPECT_THAT(
      error_of("{one: [a], two: [b, a]}", "{}"),
      HasSubstr("$.cluster.divisions.two[1]: \"a\", expected a model in no other division"));
  EXPECT_THAT(error_of("{../one: [a]}", "{}"), HasSubstr("expected a division with a name"));
  EXPECT_THAT(error_of("{one-: [a]}", "{}"), HasSubstr("expected a division with a name"));
  EXPECT_THAT(error_of("{one: [a], two: [s]}", "{s: {model: b}}"),
              HasSubstr("cluster.divisions.two: 's' is a service, expected its models"));
  EXPECT_TRUE(configuration(kTwo,  // said when it is served
                            "{s: {kind: stream, slo_ms: 100, variants: [{service: s, input_size: "
                            "1, accuracy: 0.1}]}}")
                  .ok());
  const auto circle =
      configuration(kTwo,
                    "{x: {kind: variants, variants: [{service: y}]}, y: {kind: variants, variants: "
                    "[{service: x}]}}");
  if (!circle.ok()) return;  // known sooner
  Config config = *circle;
  EXPECT_FALSE(take_division("one", config.cluster, config.engine).ok());
}

TEST(Divisions, EachNamesALease) {
  const auto error_of = [](size_t lease, std::string_view division) {
    const std::string name(lease, 'l');
    return std::string(message(configuration(fmt::format("{{{}: [a]}}", division), "{}",
                                             fmt::format("lease: {{name: {}}}", name))
                                   .status()));
  };
  EXPECT_EQ(error_of(249, "one"), "");
  EXPECT_THAT(
      error_of(250, "one"),
      HasSubstr("expected a division whose name and lease.name have 252 characters at most"));
}

TEST(Divisions, WhatNamesNoModelSaysWhatWasProbablyMeant) {
  const Config config = *configuration("{one: [resnet], two: [sentimnet, later]}", "{}");
  EXPECT_THAT(
      unknown_in_divisions(config.cluster, {"ner", "resnet", "sentiment"}),
      ElementsAre(HasSubstr("cluster.divisions.two: 'sentimnet' is no model of the repository "
                            "(was 'sentiment' meant?); models that no division names, which "
                            "are of one: ner, sentiment"),
                  HasSubstr("two: 'later' is no model of the repository; models")));
  EXPECT_THAT(unknown_in_divisions(config.cluster, {"resnet", "sentimnet", "later"}), IsEmpty());
  EXPECT_THAT(unknown_in_divisions({}, {"resnet"}), IsEmpty());
}

}  // namespace
}  // namespace fermata::serve
