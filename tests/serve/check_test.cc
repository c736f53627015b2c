#include "serve/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace fermata::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class Check : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    root_ = std::filesystem::path(FERMATA_BINARY_DIR) / "check_test" / test->name();
    std::filesystem::remove_all(root_);
    add_model("digits");
    config_.engine.repository = root_.string();
  }
  void add_model(const std::string& name) {
    std::filesystem::create_directories(root_ / name / "1");
    std::ofstream(root_ / name / "1" / "model.onnx") << "not opened by the check";
  }

  std::filesystem::path root_;
  Config config_;
};

TEST_F(Check, ListsModelsUnderTheNamesTheyAreServedBy) {
  add_model("plain");
  config_.engine.services = {{.name = "fast", .model = "digits"},
                             {.name = "slow", .model = "digits"}};
  const CheckReport report = check(config_);
  EXPECT_THAT(report.findings, IsEmpty());
  ASSERT_THAT(report.models, SizeIs(2));
  EXPECT_THAT(report.models[0].services, ElementsAre("fast", "slow", "digits"));
  EXPECT_THAT(report.models[1].services, ElementsAre("plain"));
  EXPECT_THAT(report.models[1].versions, ElementsAre(1));
}

TEST_F(Check, NamesAServiceWhoseModelIsMissing) {
  config_.engine.services = {{.name = "letters", .model = "alphabet"}};
  EXPECT_THAT(check(config_).findings,
              ElementsAre(HasSubstr("$.services.letters.model: \"alphabet\"")));
}

TEST_F(Check, NamesABrokenModelAndListsTheOthers) {
  add_model("broken");
  std::ofstream(root_ / "broken" / "config.pbtxt") << "max_batch_size: many";
  const CheckReport report = check(config_);
  EXPECT_THAT(report.findings, ElementsAre(HasSubstr("config.pbtxt")));
  EXPECT_THAT(report.models, SizeIs(1));
}

TEST_F(Check, SaysThatTheRepositoryIsMissing) {
  config_.engine.repository = (root_ / "nowhere").string();
  EXPECT_THAT(check(config_).findings, ElementsAre(HasSubstr("nowhere")));
}

}  // namespace
}  // namespace fermata::serve
