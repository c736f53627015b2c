#include "load/records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/status.h"
#include "load/agreement.h"
#include "load/json_tensor.h"
#include "model/npy.h"

namespace fermata::load {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <class T>
std::vector<T> elements(const Tensor& tensor) {
  std::vector<T> values(tensor.data.bytes.size() / sizeof(T));
  std::memcpy(values.data(), tensor.data.bytes.data(), values.size() * sizeof(T));
  return values;
}

template <class T>
Tensor output(DataType datatype, std::vector<T> values) {
  std::string bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  return {"y", datatype, {static_cast<int64_t>(values.size())}, own(std::move(bytes))};
}

TEST(Records, ReadsInputsAndLabels) {
  const auto records = parse_records(
      R"({"inputs":[{"name":"x","shape":[2,2],"datatype":"FP32","data":[[1,2],[3,4]]}],"label":7})"
      "\n\n"
      R"({"label":"cat","inputs":[{"datatype":"INT8","data":[-1],"shape":[1],"name":"z"}]})");
  ASSERT_TRUE(records.ok()) << message(records.status());
  ASSERT_EQ(records->size(), 2);
  EXPECT_THAT((*records)[0].inputs[0].shape, ElementsAre(2, 2));
  EXPECT_THAT(elements<float>((*records)[0].inputs[0]), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(std::get<int64_t>(*(*records)[0].label), 7);
  EXPECT_THAT(elements<int8_t>((*records)[1].inputs[0]), ElementsAre(-1));
  EXPECT_EQ(std::get<std::string>(*(*records)[1].label), "cat");
}

// Two rows of two numbers, for a model that batches and for one that does not.
TEST(Records, TakesTheRowsOfArrays) {
  const std::string file = testing::TempDir() + "records_rows.npy";
  const Tensor array = output<float>(DataType::kFp32, {1, 2, 3, 4});
  ASSERT_TRUE(write_npy({"a", array.datatype, {2, 2}, array.data}, file).ok());
  ASSERT_TRUE(is_npy(file));
  for (const Shape& shape : {Shape{-1, 2}, Shape{2}, Shape{-1}}) {
    const auto records = npy_records(file, {{"x", DataType::kFp32, shape}});
    ASSERT_TRUE(records.ok()) << message(records.status());
    ASSERT_EQ(records->size(), 2);
    const Tensor& second = (*records)[1].inputs[0];
    EXPECT_EQ(second.name, "x");
    EXPECT_EQ(second.shape, shape.size() == 2 ? (Shape{1, 2}) : (Shape{2}));
    EXPECT_THAT(elements<float>(second), ElementsAre(3, 4));
  }
  const InputInfo x{"x", DataType::kFp32, {-1, 2}}, y{"y", DataType::kFp32, {-1, 2}};
  const auto both = npy_records("y=" + file + ",x=" + file, {x, y});
  ASSERT_TRUE(both.ok()) << message(both.status());
  EXPECT_EQ((*both)[0].inputs.size(), 2);
  const auto said = [&](const std::string& text, const std::vector<InputInfo>& inputs) {
    return std::string(message(npy_records(text, inputs).status()));
  };
  EXPECT_THAT(said(file, {x, y}), HasSubstr("expected INPUT=FILE.npy with an input of the model"));
  EXPECT_THAT(said("x=" + file, {x, y}), HasSubstr("leaves out y"));
  EXPECT_THAT(said("x=" + file + ",x=" + file, {x, y}), HasSubstr("gives x twice"));
  EXPECT_THAT(said(file, {{"x", DataType::kFp32, {-1, 3}}}),
              HasSubstr("has the shape [2], input x takes [3]"));
  EXPECT_THAT(said(file, {{"x", DataType::kInt64, {-1, 2}}}), HasSubstr("has FP32, input x takes"));
}

std::string problem(std::string_view text) {
  const auto records = parse_records(text);
  return records.ok() ? "none" : std::string(message(records.status()));
}

TEST(Records, ErrorsNameTheLineAndWhatStandsThere) {
  const std::string good = R"({"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1]}]})"
                           "\n";
  EXPECT_THAT(problem(good + "{"), HasSubstr("line 2: not JSON"));
  EXPECT_THAT(problem(good + "\n[1]"), HasSubstr("line 3: expected an object"));
  EXPECT_THAT(problem(R"({"inputs":[]})"), HasSubstr("line 1: no inputs"));
  EXPECT_THAT(problem(R"({"inputs":[{"name":"x"}]})"),
              HasSubstr("expected name, shape, datatype and data"));
  EXPECT_THAT(problem(R"({"inputs":[{"name":"x","shape":[1],"datatype":"FLOAT","data":[1]}]})"),
              HasSubstr(R"(datatype: "FLOAT", expected such as FP32)"));
  EXPECT_THAT(problem(R"({"inputs":[{"name":"x","shape":[2],"datatype":"FP32","data":[1]}]})"),
              HasSubstr("data has 1 elements, its shape [2] holds 2"));
  EXPECT_THAT(problem(R"({"inputs":[{"name":"x","shape":[1],"datatype":"UINT8","data":[256]}]})"),
              HasSubstr("data[0] is not of datatype UINT8"));
  EXPECT_THAT(
      problem(R"({"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1]}],"l":1})"),
      HasSubstr("unknown member l"));
  EXPECT_THAT(problem("\n \n"), HasSubstr("no line with inputs"));
}

TEST(Records, MakesUpOneItemEach) {
  const auto records =
      random_records({{"a", DataType::kFp32, {-1, 8}}, {"b", DataType::kBytes, {2}}}, 3, Random(1));
  ASSERT_TRUE(records.ok());
  ASSERT_EQ(records->size(), 3);
  EXPECT_THAT((*records)[0].inputs[0].shape, ElementsAre(1, 8));
  EXPECT_EQ((*records)[0].inputs[0].data.bytes.size(), 32);
  EXPECT_EQ((*records)[0].inputs[1].data.bytes.size(), 2 * (4 + 8));
  EXPECT_NE(elements<float>((*records)[0].inputs[0]), elements<float>((*records)[1].inputs[0]));
}

TEST(Records, CannotMakeUpASizeThatIsFree) {
  const auto records = random_records({{"image", DataType::kFp32, {-1, 3, -1, 48}}}, 1, Random(1));
  EXPECT_THAT(message(records.status()), HasSubstr("input image has a variable dimension"));
}

TEST(Agreement, FloatsByTheLargestWholeNumbersAndTextsByEquality) {
  const Tensor scores = output<float>(DataType::kFp32, {0.1F, 0.7F, 0.2F});
  EXPECT_EQ(agrees(int64_t{1}, {scores}), true);
  EXPECT_EQ(agrees(int64_t{2}, {scores}), false);
  EXPECT_EQ(agrees(int64_t{1}, {output<uint16_t>(DataType::kFp16, {0, 0x3c00})}), true);
  EXPECT_EQ(agrees(int64_t{5}, {output<int64_t>(DataType::kInt64, {5, 9})}), true);
  EXPECT_EQ(agrees(int64_t{-5}, {output<int8_t>(DataType::kInt8, {-5})}), true);
  const Tensor text{"y", DataType::kBytes, {1}, own(std::string("\3\0\0\0cat", 7))};
  EXPECT_EQ(agrees("cat", {text}), true);
  EXPECT_EQ(agrees("dog", {text}), false);
}

TEST(Agreement, SaysNothingOfWhatItCannotCompare) {
  EXPECT_EQ(agrees(int64_t{1}, {}), std::nullopt);
  EXPECT_EQ(agrees("cat", {output<float>(DataType::kFp32, {1})}), std::nullopt);
  EXPECT_EQ(agrees(int64_t{1}, {output<float>(DataType::kFp32, {})}), std::nullopt);
  EXPECT_EQ(agrees("cat", {{"y", DataType::kBytes, {1}, own(std::string("\x7f\0\0\0c", 5))}}),
            std::nullopt);
}

}  // namespace
}  // namespace fermata::load
