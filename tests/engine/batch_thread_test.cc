#include "engine/execute/batch_thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  thread_->wait();
  EXPECT_THAT(seen_, ElementsAre("run", "run", "unload"));
  thread_->wait();  // nothing is left to wait for
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
