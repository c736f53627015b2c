#include "model/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "model/latency_correction.h"

namespace fermata {
namespace {

using ::testing::HasSubstr;

BatchProfile exactly(double ms) { return {10, ms, ms * 1.2, ms * 2, ms}; }

// 2 ms an item and 3 ms a batch.
Profile line() {
  Profile profile{.version = 4, .model = "m", .model_version = "1", .machine = "here"};
  for (uint32_t b : {1, 2, 4, 8}) profile.batches[b] = exactly(2.0 * b + 3);
  fit(profile);
  return profile;
}

TEST(Profile, FitsALine) {
  const Profile profile = line();
  EXPECT_NEAR(profile.linear.latency.alpha_ms, 2, 1e-9);
  EXPECT_NEAR(profile.linear.latency.beta_ms, 3, 1e-9);
  EXPECT_NEAR(profile.linear.error, 0, 1e-9);
  EXPECT_NEAR(profile.quadratic.latency.a, 0, 1e-9);
}

TEST(Profile, FitsAParabola) {
  Profile profile;
  for (uint32_t b : {1, 2, 4, 8, 16}) profile.batches[b] = exactly(0.5 * b * b + b + 7);
  fit(profile);
  EXPECT_NEAR(profile.quadratic.latency.a, 0.5, 1e-9);
  EXPECT_NEAR(profile.quadratic.latency.c, 7, 1e-9);
  EXPECT_GT(profile.linear.error, 0.05);
}

TEST(Profile, OneSizeIsAConstant) {
  Profile profile;
  profile.batches[1] = exactly(5);
  fit(profile);
  EXPECT_EQ(profile.linear.latency.alpha_ms, 0);
  EXPECT_EQ(profile.quadratic.latency.c, 5);
}

TEST(Profile, QuantilesLieBetweenTheProfiledOnes) {
  const Profile profile = line();
  EXPECT_DOUBLE_EQ(latency_at(profile, 0.5).points_ms.at(1), 5);
  EXPECT_DOUBLE_EQ(latency_at(profile, 0.9).points_ms.at(1), 6);
  EXPECT_DOUBLE_EQ(latency_at(profile, 0.99).points_ms.at(1), 10);
  EXPECT_DOUBLE_EQ(latency_at(profile, 0.7).points_ms.at(1), 5.5);
}

TEST(Profile, ReadsWhatItWrites) {
  Profile profile = line();
  profile.shapes["x"] = {3, 640};
  const auto again = parse_profile(to_json(profile), "profile.json");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(to_json(*again), to_json(profile));
  EXPECT_EQ(again->version, 4u);
}

TEST(Profile, AccuracyIsOptionalAndMayBeStatedByHand) {
  Profile profile = line();
  Confusion confusion(3);
  confusion.add(0, 0, 3);
  confusion.add(0, 1);
  confusion.add(1, 1, 4);
  profile.answers = answers_of(confusion);
  const auto again = parse_profile(to_json(profile), "profile.json");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(to_json(*again), to_json(profile));
  EXPECT_TRUE(again->answers.confusion == confusion);
  EXPECT_DOUBLE_EQ(*again->answers.accuracy, 0.875);
  EXPECT_EQ(again->answers.recall, (std::vector<std::optional<double>>{0.75, 1.0, std::nullopt}));

  profile.answers = {.accuracy = 0.9, .recall = {0.8, std::nullopt}};
  const auto stated = parse_profile(to_json(profile), "profile.json");
  ASSERT_TRUE(stated.ok()) << stated.status();
  EXPECT_EQ(to_json(*stated), to_json(profile));
  EXPECT_EQ(stated->answers.confusion.classes(), 0u);
  EXPECT_FALSE(parse_profile(to_json(line()), "profile.json")->answers.accuracy.has_value());
}

TEST(Profile, BadAccuracyIsTold) {
  const auto says = [](const std::string& fields) {
    std::string text = to_json(line());
    text.insert(text.rfind('}'), ", " + fields);
    return std::string(parse_profile(text, "p.json").status().message());
  };
  EXPECT_THAT(says(R"("accuracy": 1.5)"), HasSubstr("$.accuracy"));
  EXPECT_THAT(says(R"("recall": [0.5, "x"])"), HasSubstr("$.recall[1]"));
  EXPECT_THAT(says(R"("confusion": [[1, 2], [3]])"), HasSubstr("$.confusion[1]"));
  EXPECT_THAT(says(R"("confusion": [[-1]])"), HasSubstr("$.confusion[0][0]"));
  EXPECT_THAT(says(R"("confusion": [[1]], "recall": [1, 1])"), HasSubstr("$.recall"));
  EXPECT_THAT(says(R"("confusion": [])"), HasSubstr("$.confusion"));
}

TEST(Profile, BadDocumentsAreTold) {
  const auto says = [](const std::string& from, const std::string& to) {
    std::string text = to_json(line());
    text.replace(text.find(from), from.size(), to);
    return std::string(parse_profile(text, "p.json").status().message());
  };
  EXPECT_THAT(says("\"format\": 1", "\"format\": 2"), HasSubstr("p.json: $.format"));
  EXPECT_THAT(says("\"runs\": 10", "\"runs\": -1"), HasSubstr("$.batches"));
  EXPECT_THAT(says("\"machine\"", "\"maschine\""), HasSubstr("maschine"));
  EXPECT_THAT(says("\"8\": {", "\"eight\": {"), HasSubstr("batch size"));
  EXPECT_FALSE(parse_profile("{", "p.json").ok());
}

class Correction : public ::testing::Test {
 protected:
  std::shared_ptr<const LatencyTable> table_ = *LatencyTable::make(LinearLatency{1, 9}, 16, 3);
};

TEST_F(Correction, AProfileThatIsRightStaysAsItIs) {
  LatencyCorrection correction(table_, 0.9, false);
  for (int i = 0; i < 1000; ++i) correction.measured(4, Duration::millis(13));
  EXPECT_EQ(correction.publish(), nullptr);
  EXPECT_NEAR(correction.drift(), 1, 1e-9);
}

TEST_F(Correction, FollowsAMachineThatIsTwiceAsSlow) {
  LatencyCorrection correction(table_, 0.9, false);
  for (int i = 0; i < 100; ++i) correction.measured(4, Duration::millis(26));
  const auto corrected = correction.publish();
  ASSERT_NE(corrected, nullptr);
  EXPECT_EQ(corrected->version(), 4u);
  EXPECT_NEAR((*corrected)(4).millis(), 26, 1);
  EXPECT_NEAR((*corrected)(16).millis(), 50, 2) << "sizes that never ran follow the nearest";
  EXPECT_NEAR(correction.drift(), 2, 0.02);
  EXPECT_EQ(correction.publish(), nullptr) << "nothing new since";
}

TEST_F(Correction, OneStallOfTheMachineChangesLittle) {
  LatencyCorrection correction(table_, 0.9, false);
  correction.measured(1, Duration::seconds(10));
  EXPECT_EQ(correction.publish(), nullptr);
}

TEST_F(Correction, AGuessIsReplacedByTheFirstMeasurement) {
  LatencyCorrection correction(table_, 0.9, true);
  correction.measured(1, Duration::millis(200));
  const auto corrected = correction.publish();
  ASSERT_NE(corrected, nullptr);
  EXPECT_NEAR((*corrected)(1).millis(), 200, 1e-3);
}

TEST_F(Correction, SettlesNearTheQuantileItIsAskedFor) {
  LatencyCorrection correction(table_, 0.9, false);
  Random random(11);
  int below = 0, counted = 0;
  std::shared_ptr<const LatencyTable> latest = table_;
  for (int i = 0; i < 40'000; ++i) {
    const Duration took = Duration::from_millis(10 * (0.5 + random.uniform()));
    correction.measured(1, took);
    if (auto fresh = correction.publish()) latest = fresh;
    if (i < 20'000) continue;
    ++counted;
    below += took <= (*latest)(1) ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(below) / counted, 0.9, 0.08);
}

}  // namespace
}  // namespace fermata
