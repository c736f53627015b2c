#include "model/confusion.h"

#include <gtest/gtest.h>

namespace fermata {
namespace {

TEST(Confusion, AccuracyIsRecallWeighedByFrequency) {
  Confusion confusion(3);  // the third class has no example
  confusion.add(0, 0, 3);
  confusion.add(0, 1);
  confusion.add(1, 1, 5);
  confusion.add(1, 2, 1);
  EXPECT_DOUBLE_EQ(*confusion.accuracy(), 0.8);  // equation 7
  EXPECT_DOUBLE_EQ(*confusion.recall(0), 0.75);
  EXPECT_DOUBLE_EQ(*confusion.recall(1), 5.0 / 6);
  EXPECT_FALSE(confusion.recall(2).has_value());
  double weighed = 0;  // equation 9
  for (uint32_t c : {0, 1}) {
    weighed += *confusion.recall(c) * static_cast<double>(confusion.examples(c)) / 10;
  }
  EXPECT_DOUBLE_EQ(weighed, *confusion.accuracy());
  EXPECT_FALSE(Confusion(2).accuracy().has_value());
}

}  // namespace
}  // namespace fermata
