#include "engine/composite/evidence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/status.h"
#include "engine/execute/items.h"
#include "engine/fixture.h"
#include "engine/trial/loader.h"
#include "model/tensor_values.h"
#include "places/places.h"

namespace fermata::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Inputs = std::shared_ptr<const std::vector<Tensor>>;

Inputs inputs(std::vector<Tensor> tensors) {
  return std::make_shared<const std::vector<Tensor>>(std::move(tensors));
}

std::optional<RequestEvidence> ask(EvidenceModel& model, Inputs request) {
  std::promise<std::optional<RequestEvidence>> landed;
  model.submit(std::move(request), [&landed](std::optional<RequestEvidence> evidence) {
    landed.set_value(std::move(evidence));
  });
  return landed.get_future().get();
}

class Evidence : public ::testing::Test {
 protected:
  Evidence() : executors_(*make_executors(WorkerOptions{})) {}

  std::shared_ptr<const Variant> open(const std::string& repository, const std::string& model) {
    options_ = options_for(repository);
    Loader loader(options_, {&executors_, 1});
    return std::make_shared<const Variant>(*loader.open(*read_model_folder(repository, model), 1));
  }
  std::unique_ptr<EvidenceModel> make(EvidenceOptions options) {
    auto model = EvidenceModel::make(std::move(options), *executors_);
    FERMATA_CHECK(model.ok());
    return *std::move(model);
  }
  std::string says(EvidenceOptions options) {
    return std::string(message(EvidenceModel::make(std::move(options), *executors_).status()));
  }

  EngineOptions options_;
  std::unique_ptr<ExecutorFactory> executors_;
};

// On a line, one class left of zero and one right of it.
EvidenceOptions line() {
  EvidenceOptions options;
  options.training = {1, 2, {-3, -2, -1, 1, 2, 3}, {0, 0, 0, 1, 1, 1}};
  options.k = 3;
  return options;
}

// The zoo's held-out digits.
struct Digits {
  std::vector<std::vector<float>> images;
  std::vector<uint32_t> labels;

  Digits() {
    std::ifstream file(project_folder() + "/zoo/data/digits-test.jsonl");
    for (std::string text; std::getline(file, text);) {
      const auto json = nlohmann::json::parse(text);
      images.push_back(json["inputs"][0]["data"].get<std::vector<float>>());
      labels.push_back(json["label"].get<uint32_t>());
    }
  }
  Tensor image(size_t i) const { return floats("image", {1, 64}, images[i]); }
};

TEST_F(Evidence, OfRawTensorsCountsNeighbours) {
  const auto model = make(line());
  const auto one = ask(*model, inputs({floats("x", {1, 1}, {1.9F})}));
  ASSERT_TRUE(one.has_value());
  EXPECT_THAT(one->counts, ElementsAre(ElementsAre(0, 3)));
  const auto border = ask(*model, inputs({floats("x", {1}, {0.1F})}));
  EXPECT_THAT(border->counts, ElementsAre(ElementsAre(1, 2)));
  const auto several = ask(*model, inputs({floats("x", {3, 1}, {-9, 9, 8})}));
  EXPECT_THAT(several->counts, ElementsAre(ElementsAre(3, 0), ElementsAre(0, 3), ElementsAre(0, 3)))
      << "of each item by itself";
  EXPECT_THAT(several->answers, ElementsAre(0, 1, 1));
  EXPECT_DOUBLE_EQ(*model->answers().accuracy, 1) << "each left out, two of its class are near";
}

// Seven of class 0 are believed in beforehand: three neighbours of class 1 do not outweigh them, so
// it answers 0 whatever it sees, and is credited with being right half of the time.
TEST_F(Evidence, IsCreditedWithWhatItAnswers) {
  EvidenceOptions options = line();
  options.prior = {7, 0.5};
  const auto model = make(std::move(options));
  EXPECT_THAT(ask(*model, inputs({floats("x", {1, 1}, {3})}))->answers, ElementsAre(0));
  EXPECT_DOUBLE_EQ(*model->answers().accuracy, 0.5);
}

TEST_F(Evidence, ThePriorHasTheClassesOfThePoints) {
  EvidenceOptions options = line();
  options.prior = {1, 1, 1};
  EXPECT_THAT(says(std::move(options)), HasSubstr("the prior has 3 classes"));
}

// Scores of two classes: a request's share ten votes; of the labelled points three of four are
// right.
TEST_F(Evidence, OfAClassifierIsVotes) {
  EvidenceOptions options;
  options.k = 10;
  options.scores = true;
  options.training = {.dimensions = 2,
                      .classes = 2,
                      .features = {0.9F, 0.1F, 0.2F, 0.8F, 0.7F, 0.3F, 0.6F, 0.4F},
                      .labels = {0, 1, 0, 1}};
  const auto model = make(options);
  const auto two = ask(*model, inputs({floats("x", {2, 2}, {0.7F, 0.3F, 0, 1})}));
  ASSERT_TRUE(two.has_value());
  EXPECT_THAT(two->counts, ElementsAre(ElementsAre(7, 3), ElementsAre(0, 10)));
  EXPECT_THAT(two->answers, ElementsAre(0, 1));
  EXPECT_EQ(model->answers().accuracy, 0.75);
  options.training.classes = 3;
  EXPECT_THAT(says(options), HasSubstr("have 2 scores of 3 classes, expected one for each class"));
}

TEST_F(Evidence, UnfitRequestsHaveNone) {
  EvidenceOptions options = line();
  options.input = "x";
  const auto model = make(std::move(options));
  EXPECT_FALSE(ask(*model, inputs({})).has_value());
  EXPECT_FALSE(ask(*model, inputs({floats("y", {1, 1}, {0})})).has_value());
  EXPECT_FALSE(ask(*model, inputs({floats("x", {1, 2}, {0, 1})})).has_value());
  EXPECT_FALSE(ask(*model, inputs({text("x", {1, 1}, {"a"})})).has_value());
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(ask(*model, inputs({floats("x", {1, 1}, {nan})})).has_value());
  EXPECT_TRUE(ask(*model, inputs({floats("y", {1}, {0}), ints("x", {1, 1}, {4})})).has_value());
  EXPECT_EQ(model->dropped(), 0u);
}

TEST_F(Evidence, WhoFindsTheQueueFullGetsNone) {
  EvidenceOptions options = line();
  options.queue_limit = 2;
  const auto model = make(std::move(options));
  std::promise<void> reached, go_on, last;
  const Inputs request = inputs({floats("x", {1, 1}, {1})});
  model->submit(request, [&](auto) {
    reached.set_value();
    go_on.get_future().wait();
  });
  reached.get_future().wait();
  bool waited = false, refused = false;
  model->submit(request, [&](const auto& evidence) {
    waited = evidence.has_value();
    last.set_value();
  });
  model->submit(request, [&refused](const auto& evidence) { refused = !evidence.has_value(); });
  EXPECT_TRUE(refused) << "at once";
  EXPECT_EQ(model->dropped(), 1u);
  go_on.set_value();
  last.get_future().wait();
  EXPECT_TRUE(waited);
}

TEST_F(Evidence, EveryoneIsCalledOnceWhenItGoes) {
  int called = 0;
  {
    const auto model = make(line());
    for (int i = 0; i < 100; ++i) {
      model->submit(inputs({floats("x", {1, 1}, {1})}), [&called](const auto&) { ++called; });
    }
  }
  EXPECT_EQ(called, 100);
}

TEST_F(Evidence, OfRealDigitsFindsTheirClass) {
  const Digits digits;
  EvidenceOptions options{.k = 5};
  options.training = {64, 10, {}, {}};
  estimate::LabelledPoints held_out{64, 10, {}, {}};
  for (size_t i = 0; i < digits.labels.size(); ++i) {
    auto& points = i % 3 == 0 ? held_out : options.training;
    points.features.insert(points.features.end(), digits.images[i].begin(), digits.images[i].end());
    points.labels.push_back(digits.labels[i]);
  }
  const auto model = make(options);
  EXPECT_GT(*model->answers().accuracy, 0.93);
  size_t right = 0;
  for (size_t i = 0; i < digits.labels.size(); i += 3) {
    const auto found = ask(*model, inputs({digits.image(i)}));
    ASSERT_TRUE(found.has_value());
    right += found->answers[0] == digits.labels[i] ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(right) / static_cast<double>(held_out.size()),
              *model->answers().accuracy, 0.05);
}

TEST_F(Evidence, AnExtractorGivesTheFeatures) {
  const Digits digits;
  const auto extractor = open(project_folder() + "/zoo/repository", "digits-linear");
  const auto executor = executors_->make();
  ASSERT_TRUE(executor->load(extractor).ok());
  EvidenceOptions options{.extractor = extractor, .output = "probabilities", .k = 5};
  options.training = {10, 10, {}, {}};
  const Admitted one;
  for (size_t i = 0; i < digits.labels.size(); ++i) {
    if (i % 3 == 0) continue;
    const std::vector<Tensor> image = {digits.image(i)};
    std::vector<Item> items;
    append_items(image, one, items);
    ASSERT_TRUE(
        run_items(*executor, *extractor, items, "probabilities", [&](size_t, const auto& outputs) {
          const auto features = *as_floats(outputs->front());
          options.training.features.insert(options.training.features.end(), features.begin(),
                                           features.end());
          return absl::OkStatus();
        }).ok());
    options.training.labels.push_back(digits.labels[i]);
  }
  const auto model = make(std::move(options));
  std::vector<std::promise<std::optional<RequestEvidence>>> landed(digits.labels.size());
  size_t asked = 0, right = 0;
  for (size_t i = 0; i < digits.labels.size(); i += 3, ++asked) {
    model->submit(inputs({digits.image(i)}), [&promise = landed[i]](auto evidence) {
      promise.set_value(std::move(evidence));
    });
  }
  for (size_t i = 0; i < digits.labels.size(); i += 3) {
    const auto evidence = landed[i].get_future().get();
    ASSERT_TRUE(evidence.has_value());
    right += evidence->answers[0] == digits.labels[i] ? 1 : 0;
  }
  EXPECT_GT(static_cast<double>(right) / static_cast<double>(asked), 0.9);
  EXPECT_FALSE(ask(*model, inputs({floats("image", {1, 63}, std::vector<float>(63))})).has_value());
  const auto two = ask(*model, inputs({floats("any name", {2, 64}, std::vector<float>(128))}));
  ASSERT_TRUE(two.has_value());
  EXPECT_EQ(two->answers.size(), 2u);
}

TEST_F(Evidence, WhatCannotWorkIsTold) {
  EvidenceOptions options = line();
  options.k = 6;
  EXPECT_THAT(says(options), HasSubstr("k is 6, expected 1 to 5"));
  const std::string repository = data_folder() + "/repository";
  options = line();
  options.extractor = open(repository, "pair");
  EXPECT_THAT(says(options), HasSubstr("extractor 'pair' has 2 inputs"));
  options = line();
  options.extractor = open(repository, "dense");
  EXPECT_THAT(says(options), HasSubstr("gives 8 features, the training points have 1"));
  options.output = "z";
  EXPECT_THAT(says(options), HasSubstr("no output 'z'"));
}

}  // namespace
}  // namespace fermata::engine
