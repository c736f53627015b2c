#include "cluster/worker/worker_slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace fermata::cluster {
namespace {

using ::testing::ElementsAre;

// What it was told, in order.
class Recorded : public engine::Executor {
 public:
  explicit Recorded(std::vector<std::string>& said) : said_(said) {}
  absl::Status load(std::shared_ptr<const engine::Variant> variant) override {
    said_.push_back("load " + variant->model);
    return variant->model == "bad" ? absl::InternalError("bad") : absl::OkStatus();
  }
  void unload(VariantId id) override { said_.push_back("unload " + std::to_string(id.value())); }
  void run(engine::BatchRun) override {}

 private:
  std::vector<std::string>& said_;
};

class KeptModels : public testing::Test {
 protected:
  static WorkerSlots::Model model(const std::string& name, uint32_t id) {
    auto made = std::make_shared<engine::Variant>();
    made->model = name;
    made->id = VariantId(id);
    return made;
  }
  std::vector<std::string> said;
  WorkerSlots slots{
      std::vector<std::shared_ptr<engine::Executor>>{std::make_shared<Recorded>(said)}};
  const WorkerSlots::Model a = model("a", 1), b = model("b", 2);
};

TEST_F(KeptModels, ModelsStayLoadedWhileOneSchedulerFollowsAnother) {
  ASSERT_TRUE(slots.load(0, 7, a).ok());
  ASSERT_TRUE(slots.load(0, 8, b).ok());
  slots.begin();
  EXPECT_EQ(slots.find(0, 7), nullptr);  // the new one has not said so
  ASSERT_TRUE(slots.load(0, 3, a).ok());
  EXPECT_EQ(slots.find(0, 3), a);
  EXPECT_THAT(said, ElementsAre("load a", "load b"));
  slots.settle(0);
  slots.settle(0);
  EXPECT_THAT(said, ElementsAre("load a", "load b", "unload 2"));
}

TEST_F(KeptModels, AModelOfSeveralNumbersIsUnloadedWithTheLast) {
  ASSERT_TRUE(slots.load(0, 1, a).ok());
  ASSERT_TRUE(slots.load(0, 2, a).ok());
  slots.unload(0, 1);
  slots.unload(0, 5);  // which there is not
  EXPECT_THAT(said, ElementsAre("load a"));
  slots.unload(0, 2);
  EXPECT_THAT(said, ElementsAre("load a", "unload 1"));
  ASSERT_TRUE(slots.load(0, 3, a).ok());
  EXPECT_THAT(said, ElementsAre("load a", "unload 1", "load a"));
}

// On two threads: loads have a connection of their own.
TEST(Slots, AModelThatIsLoadedWhileItsSlotBeginsToRunIsThere) {
  class Counted : public engine::Executor {
   public:
    absl::Status load(std::shared_ptr<const engine::Variant>) override {
      there = true;
      return absl::OkStatus();
    }
    void unload(VariantId) override { there = false; }
    void run(engine::BatchRun) override {}
    std::atomic<bool> there{false};
  };
  const auto executor = std::make_shared<Counted>();
  WorkerSlots slots(std::vector<std::shared_ptr<engine::Executor>>{executor});
  const auto model = std::make_shared<engine::Variant>();
  for (uint32_t round = 0; round < 2000; ++round) {
    slots.begin();  // of an earlier scheduler it is loaded
    std::thread runs([&slots] { slots.settle(0); });
    ASSERT_TRUE(slots.load(0, round, model).ok());
    runs.join();
    ASSERT_NE(slots.find(0, round), nullptr);
    ASSERT_TRUE(executor->there) << round;
  }
}

TEST_F(KeptModels, WhatCannotBeLoadedIsNotThere) {
  EXPECT_FALSE(slots.load(0, 1, model("bad", 3)).ok());
  EXPECT_EQ(slots.find(0, 1), nullptr);
  EXPECT_FALSE(slots.load(1, 1, a).ok());  // no such slot
  slots.settle(0);
  EXPECT_THAT(said, ElementsAre("load bad"));
}

}  // namespace
}  // namespace fermata::cluster
