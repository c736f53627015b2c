#include "engine/schedule/key_table.h"

#include <gtest/gtest.h>

#include "engine/composite/variants_service.h"
#include "engine/schedule/composite_keys.h"
#include "policy/scheduler.h"

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

// A table of two keys a variant, and a service that either of two variants answers.
struct Keys {
  Keys() {
    for (uint32_t v = 0; v < 2; ++v) {
      auto variant = std::make_shared<Variant>(with_profile(3));
      variant->id = VariantId(v);
      variants.push_back(variant);
      table.add(variant, Duration::infinite());
    }
    auto made = std::make_shared<VariantsService>();
    made->variants = variants;
    made->info = {.name = "a", .variants = {{KeyId(), 0.9, {}}, {KeyId(), 0.8, {}}}};
    service = made;
  }
  Shape shape(int64_t n) const { return {n}; }

  std::unique_ptr<policy::Scheduler> scheduler = *policy::make_scheduler("fermata");
  KeyTable table{*scheduler, 0.9, 2};
  CompositeKeys composites{*scheduler, table};
  std::vector<std::shared_ptr<const Variant>> variants;
  std::shared_ptr<const VariantsService> service;
};

TEST(CompositeKeys, IdleShapesMakeRoomTheOldestFirst) {
  Keys k;
  const KeyId one = k.composites.intern(k.service, k.shape(1));
  const KeyId two = k.composites.intern(k.service, k.shape(2));
  ASSERT_FALSE(one.is_none() || two.is_none());
  k.composites.task_added(one);
  k.composites.task_ended(one);
  const KeyId three = k.composites.intern(k.service, k.shape(3));
  ASSERT_FALSE(three.is_none());
  EXPECT_NE(three, one);
  EXPECT_EQ(k.composites.intern(k.service, k.shape(1)), one);
  for (int64_t n = 4; n < 200; ++n) {
    ASSERT_FALSE(k.composites.intern(k.service, k.shape(n)).is_none()) << n;
  }
  EXPECT_EQ(k.table.size(), 4u);
}

TEST(CompositeKeys, IdleShapesMakeRoomForPlainServices) {
  Keys k;
  const KeyId busy = k.composites.intern(k.service, k.shape(1));
  k.composites.task_added(busy);
  const KeyId idle = k.composites.intern(k.service, k.shape(2));
  EXPECT_FALSE(k.table.intern(*k.table.served(VariantId(0)), k.shape(3)).is_none());
  EXPECT_FALSE(k.composites.has(idle));
  EXPECT_TRUE(k.composites.has(busy));
  EXPECT_EQ(k.composites.intern(k.service, k.shape(1)), busy);
}

TEST(CompositeKeys, BusyShapesStayAndNothingOfTheRefusedOneDoes) {
  Keys k;
  const KeyId one = k.composites.intern(k.service, k.shape(1));
  k.composites.task_added(one);
  const KeyId plain = k.table.intern(*k.table.served(VariantId(0)), k.shape(2));
  k.table.task_added(plain);
  EXPECT_TRUE(k.composites.intern(k.service, k.shape(3)).is_none());
  k.composites.task_ended(one);
  const KeyId next = k.composites.intern(k.service, k.shape(3));
  EXPECT_FALSE(next.is_none());
}

TEST(KeyTable, TheShapesOfOneVariantLeaveTheOthersAlone) {
  Keys k;
  const auto intern = [&k](uint32_t variant, int64_t n) {
    return k.table.intern(*k.table.served(VariantId(variant)), k.shape(n));
  };
  for (int64_t n : {1, 2}) k.table.task_added(intern(0, n));
  EXPECT_TRUE(intern(0, 3).is_none());
  const KeyId other = intern(1, 3);
  EXPECT_FALSE(other.is_none());
  for (int64_t n = 10; n < 20; ++n) EXPECT_TRUE(intern(0, n).is_none());
  EXPECT_EQ(intern(1, 3), other);
}

// Of pictures; profiled at one pixel, where a run takes 1 ms whatever it costs a pixel.
struct Pictures {
  Pictures() {
    auto made = std::make_shared<Variant>(with_profile(1));
    made->id = VariantId(0);
    made->signature.inputs = {{.name = "x", .dims = {-1, -1}, .model_dims = {-1, -1}}};
    made->profile.shapes["x"] = {1, 1};
    table.add(made, Duration::infinite());
  }
  KeyId key(int64_t height, int64_t width) {
    return table.intern(*table.served(VariantId(0)), {height, width});
  }
  double believed_ms(int64_t height, int64_t width) {
    return table.at(key(height, width)).latency.on(0)(1).millis();
  }
  // As the driver does when a batch of one has run.
  void ran(int64_t height, int64_t width, double ms) {
    BatchKey& known = table.at(key(height, width));
    known.ran = true;
    known.corrections[0].measured(1, Duration::from_millis(ms));
    if (auto run = known.corrections[0].publish()) known.latency = table.with_run(known, 0, run);
  }
  std::unique_ptr<policy::Scheduler> scheduler = *policy::make_scheduler("fermata");
  KeyTable table{*scheduler, 0.9, 100};
};

TEST(ShapesNeverSeen, AreNotExtrapolatedWithoutEnd) {
  Pictures p;
  EXPECT_NEAR(p.believed_ms(1, 2), 2, 1e-3);
  EXPECT_NEAR(p.believed_ms(480, 640), 8, 1e-3);
}

TEST(ShapesNeverSeen, TheFirstRunOfAFarOneTeachesAllOfIt) {
  Pictures p;
  p.ran(480, 640, 200);
  EXPECT_NEAR(p.believed_ms(480, 640), 200, 1e-3);
  EXPECT_NEAR(p.believed_ms(1, 1), 1, 1e-3);  // the others stay as they are
}

TEST(ShapesNeverSeen, AreScaledFromTheNearestThatRan) {
  Pictures p;
  p.ran(480, 640, 200);
  EXPECT_NEAR(p.believed_ms(480, 320), 100, 1e-3);
  EXPECT_NEAR(p.believed_ms(1, 3), 3, 1e-3);
  p.ran(480, 320, 50);  // one run moves a belief that was no guess by little
  EXPECT_NEAR(p.believed_ms(480, 321), p.believed_ms(480, 320) * 321 / 320, 1e-3);
}

TEST(KeyTable, TheWayToAnotherHostIsPartOfWhatDecisionsKnow) {
  Keys keys;
  policy::Decisions out;
  const KeyId id = keys.table.intern(*keys.table.served(VariantId(0)), keys.shape(2));
  BatchKey& key = keys.table.at(id);
  const Duration run = key.latency.on(0)(4);
  key.item_bytes = 1000;
  keys.table.set_link(0, {Duration::micros(200), 10}, Time(), out);
  const Duration far = key.latency.on(0)(4);
  EXPECT_NEAR((far - run).micros(), 240, 0.1);
  keys.table.set_link(0, {Duration::micros(220), 11}, Time(), out);
  EXPECT_EQ(key.latency.on(0)(4), far) << "what changes little is not told";
  keys.table.set_link(0, {Duration::micros(100), 10}, Time(), out);
  EXPECT_NEAR((key.latency.on(0)(4) - run).micros(), 140, 0.1);
}

TEST(KeyTable, AHostsOwnProfileCountsUntilAShapeHasRun) {
  Keys keys;
  policy::Decisions out;
  const KeyId id = keys.table.intern(*keys.table.served(VariantId(0)), keys.shape(2));
  keys.table.set_profile(VariantId(0), 0, with_profile(9).profile, Time(), out);
  EXPECT_NEAR(keys.table.at(id).latency.on(0)(1).millis(), 9, 1e-3);
  const KeyId other = keys.table.intern(*keys.table.served(VariantId(0)), keys.shape(1));
  EXPECT_NEAR(keys.table.at(other).latency.on(0)(1).millis(), 9, 1e-3);
  keys.table.at(id).ran = true;
  keys.table.set_profile(VariantId(0), 0, with_profile(1).profile, Time(), out);
  EXPECT_NEAR(keys.table.at(id).latency.on(0)(1).millis(), 9, 1e-3);
}

}  // namespace
}  // namespace fermata::engine
