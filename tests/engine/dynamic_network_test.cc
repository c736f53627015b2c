#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status.h"
#include "engine/execute/executor.h"
#include "engine/fixture.h"
#include "engine/trial/loader.h"

namespace fermata::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string parameter(const std::string& key, const std::string& value) {
  return "parameters { key: \"" + key + "\" value { string_value: \"" + value + "\" } }\n";
}

// The stages take so long, each, of any batch.
std::string profile(double stage_ms) {
  const auto batch = [stage_ms](int items) {
    const std::string ms = std::to_string(2 * stage_ms * items);
    const std::string each = std::to_string(stage_ms * items);
    return R"({"runs": 1, "p50_ms": )" + ms + R"(, "p90_ms": )" + ms + R"(, "p99_ms": )" + ms +
           R"(, "mean_ms": )" + ms + R"(, "stages_ms": [)" + each + ", " + each + "]}";
  };
  return R"({"format": 1, "version": 1, "model": "m", "model_version": "1", "batches": {"1": )" +
         batch(1) + R"(, "8": )" + batch(8) +
         R"(}, "linear_ms": {"alpha": 1, "beta": 0, "error": 0},
         "quadratic_ms": {"a": 0, "b": 1, "c": 0, "error": 0}})";
}

// A repository with widths of one network, and an executor that has loaded them.
class Widths {
 public:
  Widths() : options_(options_for(folder_.path().string())) {
    std::filesystem::copy(data_folder() + "/dynamic", folder_.path(),
                          std::filesystem::copy_options::recursive);
  }
  void write(const std::string& name, const std::string& parameters, double stage_ms = 1) {
    folder_.write(name + "/config.pbtxt", "max_batch_size: 8\n" + parameters);
    folder_.write(name + "/profile.json", profile(stage_ms));
  }
  void copy(const std::string& model) { folder_.copy_model(model, model); }
  absl::StatusOr<std::shared_ptr<const Variant>> load(const std::string& name) {
    ASSIGN_OR_RETURN(auto variants, loader_.load(name, {}));
    RETURN_IF_ERROR(executor_->load(variants.back()));
    return variants.back();
  }
  absl::Status trouble(const std::string& parameters) {
    write("net", parameters);
    return load("net").status();
  }
  // Items of (sureness, value).
  BatchResult run(const Variant& variant, std::vector<float> items, bool to_the_end = false) {
    const auto count = static_cast<uint32_t>(items.size() / 2);
    const std::vector<Tensor> inputs = {floats("x", {count, 2}, std::move(items))};
    const std::vector<std::string> outputs;
    BatchRun batch{.variant = variant.id, .parts = {{&inputs, &outputs, 0, count}}};
    batch.to_the_end = to_the_end;
    std::promise<BatchResult> landed;
    batch.done = [&landed](BatchResult result) { landed.set_value(std::move(result)); };
    executor_->run(std::move(batch));
    return landed.get_future().get();
  }
  static std::vector<float> values_of(const BatchResult& result) {
    const std::vector<float> all = values<float>((*result.parts[0])[0]);
    std::vector<float> second;
    for (size_t i = 1; i < all.size(); i += 2) second.push_back(all[i]);
    return second;
  }

 private:
  TemporaryFolder folder_;
  EngineOptions options_;
  std::unique_ptr<ExecutorFactory> executors_ = *make_executors(options_.workers);
  std::shared_ptr<Executor> executor_ = executors_->make();
  Loader loader_{options_, {&executors_, 1}};
};

TEST(DynamicNetwork, ItemsLeaveWhenTheyAreSureAndTheOthersGoOn) {
  Widths widths;
  widths.write("net", parameter("width", "0") + parameter("exit_above", "0.5"));
  const auto net = *widths.load("net");
  ASSERT_EQ(net->signature.inputs.size(), 1u);  // neither width nor features are seen
  ASSERT_EQ(net->signature.outputs.size(), 1u);
  const BatchResult result = widths.run(*net, {0.9F, 1, 0.1F, 2, 0.5F, 3, 0.4F, 4});
  EXPECT_THAT(Widths::values_of(result), ElementsAre(1, 20, 3, 40));
  ASSERT_EQ(result.stages.size(), 2u);
  EXPECT_EQ(result.stages[0].items, 4u);
  EXPECT_EQ(result.stages[1].items, 2u);

  const BatchResult all_leave = widths.run(*net, {1, 5, 1, 6});
  EXPECT_THAT(Widths::values_of(all_leave), ElementsAre(5, 6));
  EXPECT_EQ(all_leave.stages.size(), 1u);
  EXPECT_THAT(Widths::values_of(widths.run(*net, {0, 5, 0, 6})), ElementsAre(50, 60));
  // What is no number is not sure of itself.
  EXPECT_THAT(Widths::values_of(widths.run(*net, {NAN, 5, 1, 6})), ElementsAre(50, 6));
}

TEST(DynamicNetwork, ProfilesCountAllStages) {
  Widths widths;
  widths.write("net", parameter("width", "0") + parameter("exit_above", "0.5"));
  const auto net = *widths.load("net");
  EXPECT_EQ(widths.run(*net, {1, 1}, true).stages.size(), 2u);
  EXPECT_THAT(Widths::values_of(widths.run(*net, {1, 1}, true)), ElementsAre(10));
}

TEST(DynamicNetwork, WidthsShareTheirWeights) {
  Widths widths;
  widths.write("net", parameter("width", "2"));
  widths.write("narrow", parameter("width", "0") + parameter("weights_of", "net"));
  const auto net = *widths.load("net"), narrow = *widths.load("narrow");
  EXPECT_EQ(net->loads(), narrow->loads());
  EXPECT_NE(net->id, narrow->id);
  EXPECT_THAT(Widths::values_of(widths.run(*net, {1, 1})), ElementsAre(90));
  EXPECT_THAT(Widths::values_of(widths.run(*narrow, {1, 1})), ElementsAre(10));
}

TEST(DynamicNetwork, WidensAsFarAsTheTimeGainedAllows) {
  Widths widths;
  widths.write("net", parameter("width", "2"), 5);  // five times as long
  widths.write("middle", parameter("width", "1") + parameter("weights_of", "net"), 2);
  widths.write("narrow",
               parameter("width", "0") + parameter("weights_of", "net") +
                   parameter("exit_above", "0.5") + parameter("widen", "true"),
               1);
  ASSERT_TRUE(widths.load("net").ok());
  ASSERT_TRUE(widths.load("middle").ok());
  const auto narrow = *widths.load("narrow");
  // One of four is left: four times the time, and width 1 takes twice.
  BatchResult result = widths.run(*narrow, {1, 1, 0, 1, 1, 1, 1, 1});
  EXPECT_THAT(Widths::values_of(result), ElementsAre(1, 20, 1, 1));
  EXPECT_TRUE(result.stages[1].widened);
  // One of six: width 2 too. Two of three: none.
  result = widths.run(*narrow, {1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1});
  EXPECT_THAT(Widths::values_of(result), ElementsAre(1, 30, 1, 1, 1, 1));
  result = widths.run(*narrow, {1, 1, 0, 1, 0, 1});
  EXPECT_THAT(Widths::values_of(result), ElementsAre(1, 10, 10));
  EXPECT_FALSE(result.stages[1].widened);
}

TEST(DynamicNetwork, SaysWhatIsWrong) {
  Widths widths;
  const auto says = [&](const std::string& parameters, const std::string& what) {
    EXPECT_THAT(std::string(widths.trouble(parameters).message()), HasSubstr(what));
  };
  says(parameter("width", "wide"), "width is 'wide', expected a number from 0");
  says(parameter("width", "0") + parameter("exit_above", "2"), "exit_above is '2', expected");
  says(parameter("width", "0") + parameter("widen", "yes"), "widen is 'yes', expected true");
  says(parameter("exit_above", "0.5"), "'exit_above' is set without 'width'");
  says(parameter("width", "0") + parameter("weights_of", "../net"), "expected a model of the");
  says(parameter("width", "0") + parameter("weights_of", "other"), "expected a model of the");
  widths.copy("dense");
  widths.write("dense", parameter("width", "0"));
  EXPECT_THAT(std::string(widths.load("dense").status().message()),
              HasSubstr("stage 1 of a dynamic network has no input 'width' of type INT64"));
}

}  // namespace
}  // namespace fermata::engine
