// Which stages' outputs only other models take.
#include <gtest/gtest.h>

#include "engine/services/pipeline.h"

namespace fermata::engine {
namespace {

using Source = Pipeline::Source;

// A model that gives `y`.
Pipeline::Stage model(const std::string& name, std::vector<Source> from,
                      DataType gives = DataType::kFp32) {
  auto member = std::make_shared<Variant>();
  member->signature.outputs = {{.name = "y", .datatype = gives}};
  Pipeline::Stage stage{.name = name, .outputs = {"y"}, .member = std::move(member)};
  stage.is_model = true;
  for (Source& each : from) stage.inputs.push_back({"x", std::move(each)});
  return stage;
}

// `first` gives something to `left` and `right`, of which `last` makes the answer.
struct Diamond {
  Diamond(DataType first = DataType::kFp32) {
    pipeline.stages = {model("first", {{.tensor = "x"}}, first), model("left", {{0, "y"}}),
                       model("right", {{0, "y"}}), model("last", {{1, "y"}, {2, "y"}})};
    pipeline.outputs = {{.spec = {.name = "y"}, .from = {{3, "y"}}}};
  }
  std::vector<uint32_t> readers() {
    count_readers(pipeline);
    std::vector<uint32_t> all;
    for (const auto& stage : pipeline.stages) all.push_back(stage.readers);
    return all;
  }
  Pipeline pipeline;
};

using Readers = std::vector<uint32_t>;

TEST(StageReaders, AreTheModelsThatTakeWhatAStageGives) {
  EXPECT_EQ(Diamond().readers(), (Readers{2, 1, 1, 0}));
}

TEST(StageReaders, ThereAreNoneOfWhatClientsGet) {
  Diamond diamond;
  diamond.pipeline.outputs[0].from.push_back({1, "y"});
  EXPECT_EQ(diamond.readers(), (Readers{2, 0, 1, 0}));
}

TEST(StageReaders, ThereAreNoneWhereSomethingElseReadsIt) {
  Diamond of_operator;
  of_operator.pipeline.stages[1].is_model = false;
  EXPECT_EQ(of_operator.readers(), (Readers{0, 0, 1, 0}));
  Diamond of_condition;
  of_condition.pipeline.stages[3].when = Pipeline::When{.from = {2, "y"}, .condition = {}};
  EXPECT_EQ(of_condition.readers(), (Readers{2, 1, 0, 0}));
  Diamond by_item;
  by_item.pipeline.stages[2].one_by_one = true;
  EXPECT_EQ(by_item.readers(), (Readers{0, 1, 0, 0}));
  Diamond fans_out;
  fans_out.pipeline.stages[0].fan_out = "y";
  EXPECT_EQ(fans_out.readers(), (Readers{0, 1, 1, 0}));
}

TEST(StageReaders, ThereAreNoneOfTexts) {
  EXPECT_EQ(Diamond(DataType::kBytes).readers(), (Readers{0, 1, 1, 0}));
}

}  // namespace
}  // namespace fermata::engine
