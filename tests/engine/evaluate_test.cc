#include "engine/execute/evaluate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status.h"
#include "engine/fixture.h"
#include "engine/trial/loader.h"

namespace fermata::engine {
namespace {

using ::testing::HasSubstr;

// A model of a repository on one executor; its own answers are known: identity gives its
// input back.
class Tried {
 public:
  explicit Tried(const std::string& model,
                 const std::string& repository = data_folder() + "/repository")
      : options_(options_for(repository)),
        executors_(*make_executors(options_.workers)),
        executor_(executors_->make()) {
    Loader loader(options_, {&executors_, 1});
    variant_ = std::make_shared<const Variant>(
        *loader.open(*read_model_folder(options_.repository, model), 1));
    FERMATA_CHECK(executor_->load(variant_).ok());
  }

  const Signature& signature() const { return variant_->signature; }
  absl::StatusOr<Confusion> evaluate(LabelledRequests data, const EvaluateOptions& options = {}) {
    double last = 0;
    auto result =
        engine::evaluate(*executor_, *variant_, std::move(data), options, [&last](double share) {
          EXPECT_GE(share, last);
          last = share;
        });
    if (result.ok()) {
      EXPECT_EQ(last, 1);
    }
    return result;
  }
  std::string says(LabelledRequests data, const EvaluateOptions& options = {}) {
    return std::string(message(evaluate(std::move(data), options).status()));
  }

 private:
  EngineOptions options_;
  std::unique_ptr<ExecutorFactory> executors_;
  std::shared_ptr<Executor> executor_;
  std::shared_ptr<const Variant> variant_;
};

TEST(Evaluate, TheLargestScoreIsTheAnswer) {
  Tried model("identity-fp32");
  // Shapes differ within a request's list, not within a batch.
  const auto confusion = model.evaluate(
      {{{floats("x", {2, 3}, {0, 1, 0, 5, 6, 7})}, {floats("x", {1, 3}, {9, 0, 9})}}, {1, 0, 0}});
  ASSERT_TRUE(confusion.ok()) << confusion.status();
  EXPECT_EQ(confusion->classes(), 3u);
  EXPECT_EQ(confusion->at(1, 1), 1u);
  EXPECT_EQ(confusion->at(0, 2), 1u);
  EXPECT_EQ(confusion->at(0, 0), 1u) << "the first of equal scores";
  EXPECT_FALSE(confusion->recall(2).has_value());
}

TEST(Evaluate, AWholeNumberIsTheAnswer) {
  Tried model("identity-int64");
  const LabelledRequests data{{{tensor<int64_t>("x", DataType::kInt64, {4, 1}, {0, 1, 3, 1})}},
                              {0, 1, 1, 1}};
  const auto confusion = model.evaluate(data);
  ASSERT_TRUE(confusion.ok()) << confusion.status();
  EXPECT_EQ(confusion->classes(), 4u) << "the model's highest answer counts too";
  EXPECT_DOUBLE_EQ(*confusion->accuracy(), 0.75);
  EXPECT_EQ(model.evaluate(data, {.classes = 7})->classes(), 7u);
  EXPECT_THAT(model.says(data, {.classes = 2}), HasSubstr("answers class 3"));
}

TEST(Evaluate, RowsAreSharedAmongRequests) {
  Tried model("identity-fp32");
  std::vector<float> scores;
  std::vector<uint32_t> labels;
  for (int i = 0; i < 150; ++i) {  // more than two batches
    scores.insert(scores.end(), {static_cast<float>(i % 2), 0.5F});
    labels.push_back(i % 2 == 0 ? 1 : 0);
  }
  const Tensor whole = floats("x", {150, 2}, scores);
  auto requests = rows_as_requests({whole}, model.signature());
  ASSERT_TRUE(requests.ok());
  EXPECT_EQ(requests->size(), 3u);
  EXPECT_EQ((*requests)[1][0].data.bytes.data(), whole.data.bytes.data() + 64 * 8);
  EXPECT_EQ(*model.evaluate({*std::move(requests), labels})->accuracy(), 1);
}

TEST(Evaluate, AModelThatDoesNotBatchGetsOneRowEach) {
  Tried model("whole");  // negates [3,5]
  std::vector<float> values(30, 1);
  values[7] = -1;
  auto requests = rows_as_requests({floats("x", {2, 3, 5}, values)}, model.signature());
  ASSERT_TRUE(requests.ok());
  const auto confusion = model.evaluate({*std::move(requests), {7, 7}});
  ASSERT_TRUE(confusion.ok()) << confusion.status();
  EXPECT_EQ(confusion->at(7, 7), 1u);
  EXPECT_EQ(confusion->at(7, 0), 1u);
}

TEST(Evaluate, WhatDoesNotFitIsTold) {
  Tried model("identity-fp32");
  const std::vector<std::vector<Tensor>> two = {{floats("x", {2, 2}, {0, 1, 1, 0})}};
  EXPECT_THAT(model.says({two, {0}}), HasSubstr("1 labels for 2 examples"));
  EXPECT_THAT(model.says({{}, {}}), HasSubstr("no examples"));
  EXPECT_THAT(model.says({two, {0, 2}}),
              HasSubstr("example 1 has label 2, but the classes are 0 to 1"));
  EXPECT_THAT(model.says({two, {0, 0}}, {.output = "z"}), HasSubstr("'z' is no output"));
  EXPECT_THAT(model.says({{{floats("w", {1, 2}, {0, 1})}}, {0}}),
              HasSubstr("example 0: input 'x' is missing"));
  EXPECT_THAT(model.says({{{floats("x", {2}, {0, 1})}}, {0, 0}}), HasSubstr("shape is [2]"));
  EXPECT_THAT(model.says({{{floats("x", {2, 1}, {0, 1})}}, {0, 0}}),
              HasSubstr("expected a float score for each"));
  EXPECT_THAT(
      model.says({{{floats("x", {1, 2}, {0, 1})}, {floats("x", {1, 3}, {0, 1, 2})}}, {0, 0}}),
      HasSubstr("2 scores for one item and 3 for another"));
  Tried whole("identity-int64");
  EXPECT_THAT(whole.says({{{tensor<int64_t>("x", DataType::kInt64, {1, 1}, {-4})}}, {0}}),
              HasSubstr("names class -4"));
  EXPECT_THAT(whole.says({{{tensor<int64_t>("x", DataType::kInt64, {1, 2}, {1, 1})}}, {0}}),
              HasSubstr("one whole number"));
  const auto rows =
      rows_as_requests({floats("a", {2, 1}, {0, 1}), floats("b", {1, 1}, {0})}, model.signature());
  EXPECT_THAT(std::string(message(rows.status())), HasSubstr("input 'b' has shape [1,1]"));
}

}  // namespace
}  // namespace fermata::engine
