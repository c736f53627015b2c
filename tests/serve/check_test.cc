#include "serve/config/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "engine/fixture.h"

namespace fermata::serve {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class Check : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_.copy_model("whole", "digits");
    config_.engine = engine::options_for(folder_.path());
  }
  // What `serve` says of the same.
  std::string refusal() const {
    return std::string(engine::make_engine(config_.engine).status().message());
  }

  engine::TemporaryFolder folder_;
  Config config_;
};

TEST_F(Check, ListsModelsUnderTheNamesTheyAreServedBy) {
  folder_.copy_model("pair", "plain");
  config_.engine.services = {{.name = "fast", .model = "digits"},
                             {.name = "slow", .model = "digits"}};
  const CheckReport report = check(config_);
  EXPECT_THAT(report.findings, IsEmpty());
  ASSERT_THAT(report.models, SizeIs(2));
  EXPECT_THAT(report.models[0].services, ElementsAre("digits", "fast", "slow"));
  EXPECT_THAT(report.models[1].services, ElementsAre("plain"));
  EXPECT_THAT(report.models[1].versions, ElementsAre("1"));
}

TEST_F(Check, KnowsServicesOfSeveralModels) {
  folder_.copy_model("whole", "other");
  engine::ServiceOptions service{.name = "either"};
  service.variants = engine::VariantsOptions{.models = {"digits", "other"}};
  config_.engine.services = {service};
  EXPECT_THAT(check(config_).findings, IsEmpty());
  config_.engine.services[0].variants->models.push_back("third");
  EXPECT_THAT(check(config_).findings,
              ElementsAre("service 'either': model 'third' is not in the repository " +
                          folder_.path().string()));
  EXPECT_EQ(refusal(), check(config_).findings[0]);
}

TEST_F(Check, NamesAServiceWhoseModelIsMissing) {
  config_.engine.services = {{.name = "letters", .model = "alphabet"}, {.name = "b", .model = "c"}};
  EXPECT_THAT(check(config_).findings, ElementsAre(HasSubstr("service 'letters': model 'alphabet'"),
                                                   HasSubstr("service 'b': model 'c'")));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("service 'letters'"), HasSubstr("service 'b'")));
}

TEST_F(Check, NamesEveryWrongModelThoughServicesAreWrongToo) {
  for (const char* name : {"first", "second", "third"}) {
    folder_.copy_model("whole", name);
    folder_.write(std::string(name) + "/config.pbtxt", "backend: 'python'");
  }
  EXPECT_THAT(check(config_).findings,
              ElementsAre(HasSubstr("model 'first': "), HasSubstr("model 'second': "),
                          HasSubstr("model 'third': ")));
  engine::ServiceOptions chain{.name = "chain"}, stream{.name = "stream"};
  chain.pipeline = engine::PipelineOptions{};
  for (const char* member : {"nobody", "nothing"}) {
    chain.pipeline->stages.push_back({.name = member, .service = member});
  }
  stream.stream = engine::StreamOptions{.variants = {{"x", 32, 0.5, 0}, {"y", 64, 0.6, 0}}};
  config_.engine.services = {{.name = "letters", .model = "alphabet"}, chain, stream};
  EXPECT_THAT(check(config_).findings,
              ElementsAre(HasSubstr("'nobody' is no service"), HasSubstr("'nothing' is no service"),
                          HasSubstr("variant 'x'"), HasSubstr("variant 'y'"),
                          HasSubstr("model 'alphabet'"), HasSubstr("model 'first': "),
                          HasSubstr("model 'second': "), HasSubstr("model 'third': ")));
  EXPECT_THAT(check(config_).models, IsEmpty());
}

TEST_F(Check, SaysOfEveryServiceWhatIsWrongAndNothingOfTheOthers) {
  folder_.copy_model("whole", "other");
  for (const std::string name : {"first", "second", "well"}) {
    engine::ServiceOptions service{.name = name};
    service.variants = engine::VariantsOptions{.models = {"digits", "other"}};
    const engine::LabelledFiles files{.features = "/no/" + name, .labels = "/no/labels"};
    if (name != "well") service.variants->labelled = files;
    config_.engine.services.push_back(service);
  }
  EXPECT_THAT(
      check(config_).findings,
      ElementsAre(testing::AllOf(HasSubstr("service 'first': "), HasSubstr("/no/first")),
                  testing::AllOf(HasSubstr("service 'second': "), HasSubstr("/no/second"))));
}

TEST_F(Check, SaysOfAStreamWhichOfItsVariantsCannotBe) {
  engine::ServiceOptions one{.name = "one"}, two{.name = "two"};
  one.stream = engine::StreamOptions{.variants = {{"digits", 32, 0.5, 0}}};
  two.stream = engine::StreamOptions{.variants = {{"one", 32, 0.5, 0}}};
  config_.engine.services = {one, two};
  EXPECT_THAT(check(config_).findings,
              ElementsAre("service 'two': its variant 'one' is a stream, expected another kind"));
  EXPECT_EQ(refusal(), check(config_).findings[0]);
  config_.engine.services[1].stream->variants[0].service = "nobody";
  EXPECT_THAT(check(config_).findings,
              ElementsAre("service 'two': its variant 'nobody' is no service and no model"));
}

TEST_F(Check, SaysOfEveryModelWhatTheServerWouldSay) {
  const std::pair<const char*, const char*> broken[] = {
      {"max_batch_size: many", "line 1"},
      {"name: 'other'", "name is 'other', but the folder is 'broken'"},
      {"backend: 'python'", "expected the class TritonPythonModel there"},
      {"platform: 'ensemble'", "platform is 'ensemble'"},
      {"sequence_batching { }", "sequence_batching is not served"},
      {"model_transaction_policy { decoupled: true }", "decoupled is true"},
      {"input { name: 'x' data_type: TYPE_FP32 dims: [ 4, 5 ] }", "dims are [4,5]"},
      {"output { name: 'y' data_type: TYPE_FP32 dims: [ 3, 5 ] label_filename: 'no.txt' }",
       "no.txt"},
  };
  for (const auto& [config, says] : broken) {
    folder_.copy_model("whole", "broken");
    folder_.write("broken/config.pbtxt", config);
    const CheckReport report = check(config_);
    EXPECT_THAT(report.findings, ElementsAre(HasSubstr(says)));
    EXPECT_THAT(report.models, SizeIs(1));
  }
  std::filesystem::remove(folder_.path() / "broken/1/model.onnx");
  folder_.write("broken/config.pbtxt", "backend: 'python'");
  EXPECT_THAT(check(config_).findings, ElementsAre(HasSubstr("no such file, its folder is empty")));
}

TEST_F(Check, ModelsWithoutAVersionAreSkippedAsTheServerDoes) {
  folder_.write("later/config.pbtxt", "max_batch_size: 4");
  engine::ServiceOptions stream{.name = "cameras"}, chain{.name = "chain"};
  stream.stream = engine::StreamOptions{.variants = {{"chain", 32, 0.5, 0}}};
  chain.pipeline = engine::PipelineOptions{};
  chain.pipeline->stages.push_back({.name = "one", .service = "later"});
  config_.engine.services = {stream, chain};
  const CheckReport report = check(config_);
  EXPECT_THAT(report.findings, IsEmpty());
  EXPECT_THAT(report.notes, UnorderedElementsAre(HasSubstr("model 'later' is skipped: "),
                                                 HasSubstr("model 'chain' is skipped: "),
                                                 HasSubstr("model 'cameras' is skipped: ")));
  EXPECT_EQ(refusal(), "");
}

TEST_F(Check, SaysWhatIsReadAndNotFollowed) {
  folder_.write("digits/config.pbtxt",
                "dynamic_batching { priority_levels: 2 } response_cache { enable: true } "
                "instance_group [ { kind: KIND_GPU } ]");
  const CheckReport report = check(config_);
  EXPECT_THAT(report.findings, IsEmpty());
  EXPECT_THAT(report.notes,
              ElementsAre(HasSubstr("model 'digits': dynamic_batching.priority_levels"),
                          HasSubstr("response_cache"), HasSubstr("KIND_GPU")));
}

TEST_F(Check, SaysThatTheRepositoryIsMissing) {
  config_.engine.repository = (folder_.path() / "nowhere").string();
  EXPECT_THAT(check(config_).findings, ElementsAre(HasSubstr("nowhere")));
  EXPECT_EQ(refusal(), check(config_).findings[0]);
}

}  // namespace
}  // namespace fermata::serve
