#include "tune/rows.h"

#include <gtest/gtest.h>

namespace fermata::tune {
namespace {

struct Row {
  uint64_t id = 0;
  int value = 0;
};

TEST(Rows, AreFoundByTheirIdsWhileTheyAreThere) {
  Rows<Row> rows;
  for (uint64_t id = 1000; id < 2000; id += 3) rows.add(id).value = static_cast<int>(id);
  EXPECT_EQ(rows.find(1003)->value, 1003);
  EXPECT_EQ(rows.find(1004), nullptr);
  EXPECT_EQ(rows.find(999), nullptr);
  EXPECT_EQ(rows.find(1 << 20), nullptr);
  for (int i = 0; i < 100; ++i) rows.pop_front();
  EXPECT_EQ(rows.find(1003), nullptr);
  EXPECT_EQ(rows.front().id, 1300u);
  EXPECT_EQ(rows.find(1300)->value, 1300);
  EXPECT_EQ(rows.size(), 234u);
}

TEST(Rows, MayComeOutOfTheOrderOfTheirIds) {
  Rows<Row> rows;
  for (const uint64_t id : {700, 5, 300, 70'000, 6}) rows.add(id);
  for (const uint64_t id : {700, 5, 300, 70'000, 6}) EXPECT_EQ(rows.find(id)->id, id);
  rows.pop_front();
  EXPECT_EQ(rows.find(700), nullptr);
  EXPECT_EQ(rows[0].id, 5u);
  EXPECT_EQ(rows.find(6)->id, 6u);
}

TEST(Rows, OfOneIdAreFoundByTheLastThatCame) {
  Rows<Row> rows;
  rows.add(1).value = 1;
  rows.add(1).value = 2;
  rows.pop_front();
  EXPECT_EQ(rows.find(1)->value, 2);
  rows.pop_front();
  EXPECT_EQ(rows.find(1), nullptr);
}

TEST(Rows, TakeNoMoreMemoryForThoseThatWent) {
  Rows<Row> rows;
  size_t most = 0;
  for (uint64_t id = 0; id < 100'000; ++id) {
    rows.add(id);
    if (id >= 1000) rows.pop_front();
    if (id == 2000) most = 2 * rows.bytes();
  }
  EXPECT_LE(rows.bytes(), most);
  EXPECT_EQ(rows.find(99'999)->id, 99'999u);
  while (!rows.empty()) rows.pop_front();
  EXPECT_LT(rows.bytes(), most / 8);
  EXPECT_EQ(rows.add(200'000).value, 0);
}

}  // namespace
}  // namespace fermata::tune
