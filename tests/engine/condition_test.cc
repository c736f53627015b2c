// What of an output a stage's condition compares.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/status.h"
#include "engine/services/pipeline.h"

namespace fermata::engine {
namespace {

using Element = Condition::Element;
using Kind = Condition::Kind;
using testing::HasSubstr;

bool holds(const Condition& condition, Shape shape, std::vector<float> values, bool by_item) {
  const Pipeline::When when{{0, "p"}, condition};
  return when.holds({"p", DataType::kFp32, std::move(shape), payload_of(std::move(values))},
                    by_item);
}

// Of two items with three classes each; the second one's are unsure.
TEST(Condition, ComparesWhatItNamesOfEachItem) {
  const Shape shape{2, 3};
  const std::vector<float> sure{0.05f, 0.9f, 0.05f, 0.02f, 0.03f, 0.95f};
  const std::vector<float> unsure{0.05f, 0.9f, 0.05f, 0.4f, 0.3f, 0.3f};
  const auto either = [&](const std::vector<float>& values, Kind kind, double value,
                          Element element, uint32_t index = 0) {
    return holds({"a.p", kind, {value}, element, index}, shape, values, true);
  };
  EXPECT_FALSE(either(sure, Kind::kBelow, 0.8, Element::kMax));
  EXPECT_TRUE(either(unsure, Kind::kBelow, 0.8, Element::kMax));
  EXPECT_TRUE(either(sure, Kind::kBelow, 0.8, Element::kMin));
  EXPECT_TRUE(either(sure, Kind::kBelow, 0.8, Element::kAny));
  EXPECT_TRUE(either(sure, Kind::kAmong, 2, Element::kArgmax));
  EXPECT_FALSE(either(unsure, Kind::kAmong, 2, Element::kArgmax));
  EXPECT_TRUE(either(unsure, Kind::kAmong, 0, Element::kArgmax));
  EXPECT_TRUE(either(sure, Kind::kAbove, 0.94, Element::kIndex, 2));
  EXPECT_FALSE(either(unsure, Kind::kAbove, 0.94, Element::kIndex, 2));
}

TEST(Condition, OfOneElementAsItIs) {
  const Condition low{"a.p", Kind::kBelow, {0.5}};
  EXPECT_TRUE(holds(low, {3, 1}, {0.9f, 0.1f, 0.9f}, true));  // one of three items
  EXPECT_FALSE(holds(low, {3, 1}, {0.9f, 0.8f, 0.9f}, true));
  EXPECT_TRUE(holds(low, {1}, {0.1f}, false));
  EXPECT_TRUE(holds({"a.p", Kind::kAmong, {1.1}}, {1}, {1.1f}, false));  // as a float
}

TEST(Condition, HoldsOfNothingThatIsNoNumber) {
  const float none = std::numeric_limits<float>::quiet_NaN();
  for (const Element element : {Element::kMax, Element::kMin, Element::kArgmax, Element::kAny}) {
    EXPECT_FALSE(holds({"a.p", Kind::kBelow, {9}, element}, {2}, {none, none}, false));
    EXPECT_FALSE(holds({"a.p", Kind::kBelow, {9}, element}, {0, 2}, {}, true));
  }
  EXPECT_TRUE(holds({"a.p", Kind::kBelow, {0.5}, Element::kMax}, {2}, {none, 0.1f}, false));
}

TEST(Condition, ThatDoesNotSayWhichElementIsWrong) {
  const Condition bare{"a.p", Kind::kBelow, {1}},
      fourth{"a.p", Kind::kBelow, {1}, Element::kIndex, 3};
  EXPECT_TRUE(check_condition(bare, {}).ok());
  EXPECT_TRUE(check_condition(bare, {1, 1}).ok());
  EXPECT_THAT(std::string(message(check_condition(bare, {10}))),
              HasSubstr("max, min, argmax, any"));
  EXPECT_FALSE(check_condition(bare, {-1}).ok());
  EXPECT_TRUE(check_condition(fourth, {4}).ok());
  EXPECT_TRUE(check_condition(fourth, {-1}).ok());
  EXPECT_THAT(std::string(message(check_condition(fourth, {3}))), HasSubstr("have 3 elements"));
}

}  // namespace
}  // namespace fermata::engine
