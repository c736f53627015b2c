#include "base/nearest_name.h"

#include <gtest/gtest.h>

namespace fermata {
namespace {

TEST(NearestName, IsTheOneThatDiffersLeast) {
  const std::vector<std::string_view> names = {"slo_ms", "model", "models", "timeout"};
  EXPECT_EQ(nearest_name("slo_m", names), "slo_ms");
  EXPECT_EQ(nearest_name("modles", names), "models");
  EXPECT_EQ(nearest_name("timeot", names), "timeout");
}

TEST(NearestName, IsNoneWhereNothingIsNear) {
  EXPECT_EQ(nearest_name("banana", {"slo_ms", "model"}), std::nullopt);
  EXPECT_EQ(nearest_name("x", {"k"}), std::nullopt);
  EXPECT_EQ(nearest_name(std::string(100, 'a'), {"a"}), std::nullopt);
  EXPECT_EQ(nearest_name("", {}), std::nullopt);
}

}  // namespace
}  // namespace fermata
