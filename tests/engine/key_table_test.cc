#include "engine/key_table.h"

#include <gtest/gtest.h>

namespace fermata::engine {
namespace {

Variant with_profile(double ms) {
  Variant variant;
  variant.signature.batches = true;
  variant.signature.max_batch = 8;
  variant.signature.inputs = {{.name = "x", .dims = {2}, .model_dims = {2}}};
  variant.profile.batches[1] = {1, ms, ms, ms, ms};
  variant.profile.batches[2] = {1, 2 * ms, 2 * ms, 2 * ms, 2 * ms};
  fit(variant.profile);
  return variant;
}

TEST(BelievedLatency, GoesOnWhereTheProfileEnds) {
  const auto latency = believed_latency(with_profile(3), 0.9, 1);
  EXPECT_EQ(latency->max_batch(), 8u);
  EXPECT_NEAR((*latency)(8).millis(), 24, 1e-3);
}

TEST(BelievedLatency, AnAbsurdProfileIsNoReasonToStop) {
  for (double ms : {1e-300, 1e300}) {
    const auto latency = believed_latency(with_profile(ms), 0.9, 1e6);
    EXPECT_GT((*latency)(1), Duration());
    EXPECT_LE((*latency)(8), Duration::seconds(1'000'000));
  }
}

TEST(RelativeSize, AFixedShapeHasNone) {
  Variant variant = with_profile(3);
  variant.profile.shapes["x"] = {64};
  EXPECT_EQ(relative_size(variant, {}), 1);
}

}  // namespace
}  // namespace fermata::engine
