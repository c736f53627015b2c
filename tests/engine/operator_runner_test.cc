#include "engine/services/operator_runner.h"

#include <gmock/gmock.h>

#include <condition_variable>
#include <future>
#include <mutex>
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

 protected:
  absl::StatusOr<std::vector<Tensor>> apply(absl::Span<const Tensor>) const override {
    return std::vector<Tensor>();
  }
};

// Much work, by what it says.
class Long : public Held {
 public:
  uint64_t work(absl::Span<const Tensor>) const override { return OperatorRunner::kLong; }
};

// Gives its inputs as they come.
class PassOn : public operators::Operator {
 public:
  PassOn() : Operator({bytes("a"), bytes("b")}, {bytes("a"), bytes("b")}) {}

 private:
  static TensorSpec bytes(std::string name) { return {std::move(name), DataType::kUint8, {0}}; }
  absl::StatusOr<std::vector<Tensor>> apply(absl::Span<const Tensor> inputs) const override {
    return std::vector<Tensor>(inputs.begin(), inputs.end());
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
  std::optional<OperatorRunner> runner_{std::in_place, 1, uint64_t{1} << 40};
};

// A picture of so many bytes, of each that was sent.
class Decode : public operators::Operator {
 public:
  explicit Decode(size_t bytes)
      : Operator({}, {{.name = "image", .datatype = DataType::kUint8, .dims = {-1}}}),
        bytes_(bytes) {}

 private:
  absl::StatusOr<std::vector<Tensor>> apply(absl::Span<const Tensor>) const override {
    return std::vector{Tensor{"image",
                              DataType::kUint8,
                              {static_cast<int64_t>(bytes_)},
                              payload_of(std::vector<uint8_t>(bytes_))}};
  }
  const size_t bytes_;
};

// Whatever their order; one that is missing is named.
TEST_F(OperatorRunnerTest, AnOperatorGetsItsInputsInItsOrder) {
  const auto run = [this](std::vector<std::string> names) {
    std::promise<absl::StatusOr<std::vector<Tensor>>> ended;
    OperatorRunner::Work work{.id = JobId(1),
                              .op = std::make_shared<PassOn>(),
                              .submitted = monotonic_now(),
                              .deadline = Time::infinite()};
    for (std::string& name : names) {
      work.inputs.push_back({.name = std::move(name), .datatype = DataType::kUint8, .shape = {0}});
    }
    work.done = [&ended](OperatorRunner::Answer answer) {
      ended.set_value(std::move(answer.outputs));
    };
    runner_->submit(std::move(work));
    return ended.get_future().get();
  };
  const auto outputs = run({"b", "a"});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  ASSERT_EQ(outputs->size(), 2u);
  EXPECT_EQ(outputs->front().name, "a");
  EXPECT_THAT(std::string(run({"b"}).status().message()), testing::HasSubstr("'a' is missing"));
}

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

// One of two threads is left to what is short, however much that is long waits before it.
TEST_F(OperatorRunnerTest, WhatTakesLongLeavesAThreadToTheRest) {
  runner_.emplace(2, uint64_t{1} << 40);
  const Time soon = monotonic_now() + Duration::seconds(600);
  std::vector<std::shared_ptr<Long>> all;
  std::vector<std::future<absl::StatusCode>> ended;
  for (uint64_t id = 10; id < 13; ++id) {
    all.push_back(std::make_shared<Long>());
    ended.push_back(submit(id, soon, all.back()));
  }
  all[0]->wait_begun();
  EXPECT_EQ(submit(1, Time::infinite()).get(), absl::StatusCode::kOk);
  for (const auto& each : all) each->let_go();
  for (auto& each : ended) EXPECT_EQ(each.get(), absl::StatusCode::kOk);
}

// Of pictures, as many as there is room for: the others wait as they were sent, whatever else runs,
// and begin when a model has taken one.
TEST_F(OperatorRunnerTest, DecodesNoMoreThanModelsTakeSoon) {
  constexpr size_t kPicture = 1000;
  runner_.emplace(2, 3 * kPicture);
  const auto decode = std::make_shared<Decode>(kPicture);
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::vector<Tensor>> waiting;  // for a model
  size_t decoded = 0;
  const auto ask = [&](uint64_t id, bool first, uint32_t runs) {
    runner_->submit({.id = JobId(id),
                     .op = decode,
                     .submitted = monotonic_now(),
                     .deadline = Time::infinite(),
                     .done =
                         [&](OperatorRunner::Answer answer) {
                           const std::lock_guard lock(mutex);
                           waiting.push_back(*std::move(answer.outputs));
                           ++decoded;
                           changed.notify_all();
                         },
                     .ahead = true,
                     .first = first,
                     .runs = runs});
  };
  const auto await = [&](size_t count) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return decoded >= count; });
    return waiting.size();
  };
  for (uint64_t id = 1; id <= 20; ++id) ask(id, true, 0);
  await(3);
  EXPECT_EQ(submit(100, Time::infinite()).get(), absl::StatusCode::kOk);  // what follows models
  ask(101, false, 0);  // and what has begun already
  const size_t held = await(4);
  EXPECT_LE(held, 5u);                           // two threads may begin at a time
  for (size_t taken = 0; taken < 21; ++taken) {  // by models, one after another
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return !waiting.empty(); });
    EXPECT_LE(waiting.size(), 5u);
    waiting.pop_back();
  }
  for (uint64_t id = 200; id < 208; ++id) ask(id, true, 10);  // workers need as many
  EXPECT_EQ(await(29), 8u);
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
