#include "engine/services/operator_runner.h"

#include <gmock/gmock.h>

#include <future>
#include <optional>

#include "base/clock.h"

namespace fermata::engine {
namespace {

// Takes as long as the test wants.
class Held : public operators::Operator {
 public:
  Held() : Operator({}, {}) {}
  void wait_begun() const { begun_.get_future().wait(); }
  void let_go() const { go_.set_value(); }

 private:
  absl::StatusOr<std::vector<Tensor>> apply(absl::Span<const Tensor>) const override {
    begun_.set_value();
    go_.get_future().wait();
    return std::vector<Tensor>();
  }
  mutable std::promise<void> begun_, go_;
};

class Immediate : public operators::Operator {
 public:
  Immediate() : Operator({}, {}) {}

 private:
  absl::StatusOr<std::vector<Tensor>> apply(absl::Span<const Tensor>) const override {
    return std::vector<Tensor>();
  }
};

class OperatorRunnerTest : public testing::Test {
 protected:
  ~OperatorRunnerTest() override {
    if (holds_) held_->let_go();
  }
  // The only thread runs something from now on.
  void hold() {
    submit(0, Time::infinite(), held_);
    held_->wait_begun();
    holds_ = true;
  }
  void let_go() {
    holds_ = false;
    held_->let_go();
  }
  std::future<absl::StatusCode> submit(uint64_t id, Time deadline,
                                       std::shared_ptr<const operators::Operator> op = nullptr) {
    auto ended = std::make_shared<std::promise<absl::StatusCode>>();
    OperatorRunner::Work work{.id = JobId(id),
                              .op = op != nullptr ? op : std::make_shared<Immediate>(),
                              .submitted = monotonic_now(),
                              .deadline = deadline};
    auto future = ended->get_future();
    work.done = [this, id, ended](OperatorRunner::Answer answer) {
      {
        const std::lock_guard lock(mutex_);
        order_.push_back(id);
      }
      ended->set_value(answer.outputs.status().code());
    };
    runner_->submit(std::move(work));
    return future;
  }

  std::shared_ptr<Held> held_ = std::make_shared<Held>();
  bool holds_ = false;
  std::mutex mutex_;
  std::vector<uint64_t> order_;  // in which they ended
  std::optional<OperatorRunner> runner_{std::in_place, 1};
};

TEST_F(OperatorRunnerTest, EndsAtItsDeadlineWhatStillWaits) {
  hold();
  auto late = submit(1, monotonic_now() + Duration::millis(1));
  EXPECT_EQ(late.get(), absl::StatusCode::kDeadlineExceeded);
  auto past = submit(2, monotonic_now() - Duration::millis(1));
  EXPECT_EQ(past.get(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(OperatorRunnerTest, DoesNotRunWhatIsCancelled) {
  hold();
  const auto tensor = std::make_shared<Immediate>();
  auto cancelled = submit(1, Time::infinite(), tensor);
  auto kept = submit(2, Time::infinite());
  EXPECT_TRUE(runner_->cancel(JobId(1)));
  EXPECT_EQ(tensor.use_count(), 1);  // nothing of it is kept
  EXPECT_FALSE(runner_->cancel(JobId(1)));
  EXPECT_FALSE(runner_->cancel(JobId(0)));  // it runs
  let_go();
  EXPECT_EQ(kept.get(), absl::StatusCode::kOk);
  EXPECT_THROW(cancelled.get(), std::future_error);
}

TEST_F(OperatorRunnerTest, RunsByDeadline) {
  hold();
  const Time now = monotonic_now();
  auto never = submit(1, Time::infinite());
  auto second = submit(2, Time::infinite());
  auto later = submit(3, now + Duration::seconds(200));
  auto sooner = submit(4, now + Duration::seconds(100));
  let_go();
  second.wait();
  EXPECT_THAT(order_, testing::ElementsAre(0, 4, 3, 1, 2));
  EXPECT_EQ(later.get(), absl::StatusCode::kOk);
}

TEST_F(OperatorRunnerTest, AStopEndsWhatWaits) {
  hold();
  auto waits = submit(1, Time::infinite());
  std::thread stop([this] { runner_.reset(); });
  EXPECT_EQ(waits.get(), absl::StatusCode::kUnavailable);
  let_go();
  stop.join();
}

}  // namespace
}  // namespace fermata::engine
