#include "engine/execute/batch_thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <string>

namespace fermata::engine {
namespace {

using testing::ElementsAre;

class BatchThreadTest : public testing::Test {
 protected:
  std::promise<void> open_;
  std::shared_future<void> gate_ = open_.get_future().share();
  std::vector<std::string> seen_;
  std::optional<BatchThread> thread_{std::in_place, [this](BatchRun&) {
                                       gate_.wait();
                                       seen_.emplace_back("run");
                                     }};
};

// An executor that loads what it runs evicts a model while a batch of it is still queued.
TEST_F(BatchThreadTest, UnloadsNothingThatABatchBeforeItNeeds) {
  thread_->run({});
  thread_->post([this] { seen_.emplace_back("unload"); });
  thread_->run({});
  open_.set_value();
  thread_.reset();
  EXPECT_THAT(seen_, ElementsAre("run", "unload", "run"));
}

TEST_F(BatchThreadTest, IsWaitedForOnceWhatWasPostedIsDone) {
  thread_->post([this] { seen_.emplace_back("unload"); });
  thread_->wait();
  EXPECT_THAT(seen_, ElementsAre("unload"));
  thread_->wait();  // nothing is left to wait for
}

// Batches that come without end: each is followed by the next before it has ended.
TEST(BatchThread, DoesWhatIsPostedWhileBatchesNeverCease) {
  constexpr int kMost = 1000;
  std::atomic<int> ran{0}, ran_before{kMost};
  std::atomic<BatchThread*> itself{nullptr};
  std::promise<void> open, over;
  BatchThread thread([&, gate = open.get_future().share()](BatchRun&) {
    gate.wait();
    if (++ran < kMost) {
      itself.load()->run({});
    } else {
      over.set_value();
    }
  });
  itself = &thread;
  thread.run({});
  thread.post([&] { ran_before = ran.load(); });
  open.set_value();
  over.get_future().wait();
  EXPECT_EQ(ran_before, 1);
}

TEST_F(BatchThreadTest, EndsAfterWhatWaits) {
  thread_->run({});
  thread_->post([this] { seen_.emplace_back("unload"); });
  open_.set_value();
  thread_.reset();
  EXPECT_THAT(seen_, ElementsAre("run", "unload"));
}

}  // namespace
}  // namespace fermata::engine
