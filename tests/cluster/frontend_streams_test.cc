// Streams between a frontend and schedulers whose answers a test decides.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "cluster/frontend/frontend_engine.h"
#include "cluster/scheduler/hosts.h"
#include "engine/for_frontends.h"

namespace fermata::cluster {
namespace {

using ::testing::HasSubstr;

constexpr std::chrono::minutes kMostPatience{2};  // for what is waited for

// Serves `small` and `large`, variants of the stream `cameras`.
class DirectingEngine : public engine::Engine, public engine::ForFrontends {
 public:
  Time now() const override { return monotonic_now(); }
  JobId submit(engine::InferRequest request, engine::Reply reply) override {
    {
      const std::lock_guard lock(mutex_);
      submitted_.push_back(request);
    }
    changed_.notify_all();
    reply({.status = error(absl::StatusCode::kUnavailable, "no worker"),
           .why = {.outcome = engine::Outcome::kUnavailable}});
    return JobId(1);
  }
  engine::StreamDirection direct(engine::InferRequest request) override {
    const std::lock_guard lock(mutex_);
    directed_.push_back(std::move(request));
    owners_.insert(directed_.back().frame->owner);
    changed_.notify_all();
    return direction_;
  }
  void operators_take(uint64_t, std::string_view, std::vector<Duration>) override {}
  void close_streams(uint64_t owner) override {
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(owners_.erase(owner), 1u);
    changed_.notify_all();
  }
  engine::ServedModels models() const override {
    const std::lock_guard lock(mutex_);
    engine::ServedModels models;
    uint32_t size = 1;
    for (const char* name : {"small", "large"}) {
      ++size;
      if (unloaded_ == name) continue;
      auto variant = std::make_shared<engine::Variant>();
      variant->model = name;
      variant->version = "1";
      variant->signature = {.batches = true, .max_batch = 4};
      variant->signature.inputs = {{"x", DataType::kFp32, {size}, {size}}};
      variant->signature.outputs = {{"y", DataType::kFp32, {1}, {1}}};
      models[name].variants = {variant};
    }
    return models;
  }
  void unload_small() {
    const std::lock_guard lock(mutex_);
    unloaded_ = "small";
    catalog_ = std::make_shared<engine::Catalog>();  // another: it is told
  }
  std::vector<engine::ModelStatus> index() const override {
    return {{"cameras", "1", engine::ModelState::kReady, ""}};
  }
  void cancel(JobId) override {}
  void learned(JobId, std::vector<policy::Estimate>) override {}
  std::shared_ptr<const engine::Catalog> catalog() const override {
    const std::lock_guard lock(mutex_);
    return catalog_;
  }
  absl::Status load(std::string_view, std::optional<std::string>) override { return {}; }
  absl::Status unload(std::string_view) override { return {}; }
  void end_epoch() override {}
  std::vector<engine::PlacementDecision> placement_decisions() const override { return {}; }
  std::vector<policy::Problem> last_problems() const override { return {}; }
  engine::EngineSnapshot snapshot() const override { return {}; }

  void answer_with(engine::StreamDirection direction) {
    const std::lock_guard lock(mutex_);
    direction_ = std::move(direction);
  }
  std::vector<engine::InferRequest> submitted() const {
    const std::lock_guard lock(mutex_);
    return submitted_;
  }
  std::vector<engine::InferRequest> directed() const {
    const std::lock_guard lock(mutex_);
    return directed_;
  }
  size_t directed_count() const {
    const std::lock_guard lock(mutex_);
    return directed_.size();
  }
  void await_owners(size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kMostPatience, [&] { return owners_.size() == count; }));
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const engine::Catalog> catalog_ = std::make_shared<engine::Catalog>();
  std::string unloaded_;
  std::condition_variable changed_;
  engine::StreamDirection direction_;
  std::vector<engine::InferRequest> submitted_, directed_;
  std::set<uint64_t> owners_;  // that have not been closed
};

class FrontendStreamsTest : public testing::Test {
 protected:
  FrontendStreamsTest() {
    start_scheduler(0);
    frontend_ = make_frontend();
    await_cameras(*frontend_);
  }
  ~FrontendStreamsTest() override {
    frontend_.reset();
    hosts_->end_frontends();
  }
  void start_scheduler(uint16_t port) {
    hosts_ = std::make_shared<Hosts>(
        Options{.host = "127.0.0.1", .port = port, .silence = Duration::seconds(20)});
    engine_ = std::make_unique<DirectingEngine>();
    hosts_->serve_frontends(*engine_);
    ASSERT_TRUE(hosts_->listen().ok());
  }
  std::unique_ptr<FrontendEngine> make_frontend() {
    FrontendEngine::Options options{.divisions = {{fmt::format("127.0.0.1:{}", hosts_->port())}},
                                    .link = {.name = "front"},
                                    .host = "127.0.0.1"};
    engine::ServiceOptions cameras{.name = "cameras", .slo = Duration::seconds(60)};
    cameras.stream.emplace();
    cameras.stream->variants = {{"small", 20, 0.2, 0}, {"large", 30, 0.3, 0}};
    options.engine.services = {std::move(cameras)};
    return *FrontendEngine::make(std::move(options));
  }
  static void await_cameras(const FrontendEngine& frontend) {
    const auto end = std::chrono::steady_clock::now() + kMostPatience;
    while (!frontend.catalog()->find("cameras", "").ok()) {
      ASSERT_LT(std::chrono::steady_clock::now(), end);
      std::this_thread::yield();
    }
  }
  // Of `width` numbers; none: a message without a frame.
  engine::InferRequest request(int64_t width) const {
    engine::InferRequest made{.service = "cameras", .id = "mine"};
    made.arrival = frontend_->now();
    made.frame = std::make_shared<policy::StreamFrame>();
    made.frame->client = "door";
    made.frame->owner = made.connection = 3;
    made.frame->address = "10.0.0.9";
    made.frame->rate_rps = 15;
    if (width == 0) return made;
    made.inputs = {{"x", DataType::kFp32, {1, width}, payload_of(std::vector<float>(width))}};
    return made;
  }
  static engine::ReplyPart ask(FrontendEngine& frontend, engine::InferRequest request) {
    auto promise = std::make_shared<std::promise<engine::ReplyPart>>();
    frontend.submit(std::move(request), [promise](engine::ReplyPart reply) {
      promise->set_value(std::move(reply));  // throws where it is called twice
    });
    auto reply = promise->get_future();
    EXPECT_EQ(reply.wait_for(kMostPatience), std::future_status::ready);
    return reply.get();
  }
  engine::ReplyPart ask(engine::InferRequest request) {
    return ask(*frontend_, std::move(request));
  }

  std::shared_ptr<Hosts> hosts_;
  std::unique_ptr<DirectingEngine> engine_;
  std::unique_ptr<FrontendEngine> frontend_;
};

TEST_F(FrontendStreamsTest, AHelloEndsAtTheScheduler) {
  engine_->answer_with({.advice = {20, Duration::millis(2)}});
  engine::InferRequest hello = request(0);
  hello.frame->hello = true;
  const engine::ReplyPart reply = ask(std::move(hello));
  ASSERT_TRUE(reply.status.ok()) << reply.status;
  EXPECT_EQ(reply.model, "cameras");
  EXPECT_EQ(reply.id, "mine");
  ASSERT_NE(reply.stream, nullptr);
  EXPECT_EQ(reply.stream->advice.input_size, 20u);
  EXPECT_EQ(reply.stream->advice.shift, Duration::millis(2));
  EXPECT_GE(reply.stream->in_server, Duration());
  const engine::InferRequest told = engine_->directed().at(0);
  EXPECT_TRUE(told.frame->hello);
  EXPECT_EQ(told.frame->address, "10.0.0.9");
  EXPECT_NE(told.frame->owner, 3u);  // which another frontend may have too
  EXPECT_TRUE(engine_->submitted().empty());
}

TEST_F(FrontendStreamsTest, AFrameIsACallOfTheVariantThatTheSchedulerNames) {
  engine_->answer_with({.service = "large",
                        .timeout = Duration::seconds(50),
                        .network_time = Duration::seconds(1),
                        .start_after = Duration::seconds(2),
                        .advice = {20, {}}});
  engine::InferRequest asked = request(3);
  asked.timeout = Duration::seconds(1);  // the client's objective counts
  const Time arrival = asked.arrival;
  const engine::ReplyPart reply = ask(std::move(asked));
  EXPECT_EQ(reply.status.message(), "no worker");
  EXPECT_EQ(reply.model, "cameras");
  ASSERT_NE(reply.stream, nullptr);
  EXPECT_EQ(reply.stream->advice.input_size, 20u);
  const engine::InferRequest told = engine_->directed().at(0);
  EXPECT_TRUE(told.inputs.empty());
  EXPECT_EQ(told.frame->input_size, 30u);  // by the shape
  EXPECT_EQ(told.frame->bytes, 12u);
  ASSERT_EQ(engine_->submitted().size(), 1u);
  const engine::InferRequest run = engine_->submitted()[0];
  EXPECT_EQ(run.service, "large");
  EXPECT_EQ(run.frame, nullptr);
  EXPECT_EQ(run.timeout, Duration::seconds(50));
  EXPECT_GE(run.network_time, Duration::seconds(1));
  // Of one clock, but for what is not known of it.
  EXPECT_GT(run.start_from - arrival, Duration::seconds(1));
  EXPECT_LT(run.start_from - arrival, Duration::seconds(3));
}

TEST_F(FrontendStreamsTest, WhyAFrameIsNotServedIsToldWithAdvice) {
  engine_->answer_with({.status = error(absl::StatusCode::kResourceExhausted, "too many frames"),
                        .advice = {20, {}}});
  const engine::ReplyPart reply = ask(request(2));
  EXPECT_EQ(reply.status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(reply.why.outcome, engine::Outcome::kUnavailable);
  ASSERT_NE(reply.stream, nullptr);
  EXPECT_EQ(reply.stream->advice.input_size, 20u);
  EXPECT_TRUE(engine_->submitted().empty());
}

// The scheduler's word of the size may not fit the tensors.
TEST_F(FrontendStreamsTest, AFrameThatDoesNotFitItsVariantIsRejectedHereWithAdvice) {
  engine_->answer_with({.service = "large", .timeout = Duration::seconds(50), .advice = {20, {}}});
  const engine::ReplyPart reply = ask(request(2));
  EXPECT_TRUE(absl::IsInvalidArgument(reply.status));
  EXPECT_THAT(std::string(reply.status.message()), HasSubstr("input 'x': shape is [1,2]"));
  ASSERT_NE(reply.stream, nullptr);
  EXPECT_TRUE(engine_->submitted().empty());
}

TEST_F(FrontendStreamsTest, WhoKnowsNothingOfStreamsNeedsNoDirection) {
  engine::InferRequest asked = request(3);
  asked.frame.reset();
  const engine::ReplyPart reply = ask(std::move(asked));
  EXPECT_EQ(reply.status.message(), "no worker");
  EXPECT_EQ(reply.model, "cameras");
  EXPECT_EQ(reply.stream, nullptr);
  EXPECT_EQ(engine_->submitted().at(0).service, "large");
  EXPECT_TRUE(engine_->directed().empty());
}

TEST_F(FrontendStreamsTest, AVariantThatIsUnloadedLeavesTheOthersServing) {
  engine_->unload_small();
  const auto end = std::chrono::steady_clock::now() + kMostPatience;
  while (frontend_->catalog()->find("small", "").ok()) {
    ASSERT_LT(std::chrono::steady_clock::now(), end);
    std::this_thread::yield();
  }
  EXPECT_TRUE(frontend_->catalog()->find("cameras", "").ok());
  engine_->answer_with({.service = "large", .timeout = Duration::seconds(50), .advice = {30, {}}});
  const engine::ReplyPart reply = ask(request(3));
  EXPECT_EQ(reply.status.message(), "no worker");
  ASSERT_NE(reply.stream, nullptr);
  EXPECT_EQ(reply.stream->advice.input_size, 30u);
  EXPECT_EQ(engine_->submitted().size(), 1u);
}

TEST_F(FrontendStreamsTest, AnIdThatNoClientHasIsNotAskedFor) {
  engine::InferRequest asked = request(2);
  asked.frame->client = std::string(1 << 20, 'x');
  const engine::ReplyPart reply = ask(std::move(asked));
  EXPECT_TRUE(absl::IsInvalidArgument(reply.status));
  EXPECT_THAT(std::string(reply.status.message()), HasSubstr("stream_client has 1048576"));
  ASSERT_NE(reply.stream, nullptr);
  EXPECT_EQ(reply.stream->advice.input_size, 20u);
  EXPECT_TRUE(engine_->directed().empty());
}

TEST_F(FrontendStreamsTest, AConnectionThatClosesIsToldOnce) {
  ask(request(2));
  engine::InferRequest other = request(2);
  other.frame->owner = 4;
  ask(std::move(other));
  engine_->await_owners(2);
  frontend_->close_streams(5);  // has sent no frame
  frontend_->close_streams(3);
  frontend_->close_streams(3);
  engine_->await_owners(1);
  frontend_->close_streams(4);
  engine_->await_owners(0);
}

TEST_F(FrontendStreamsTest, AFrontendThatGoesTakesItsConnectionsAlong) {
  const auto second = make_frontend();
  await_cameras(*second);
  ask(request(2));
  ask(*second, request(2));  // of a connection of the same number
  engine_->await_owners(2);
  frontend_.reset();
  engine_->await_owners(1);
}

// In the order in which they came, whichever is the next scheduler.
TEST_F(FrontendStreamsTest, FramesThatWaitAreAskedOfTheNextScheduler) {
  const uint16_t port = hosts_->port();
  hosts_->end_frontends();
  hosts_.reset();
  const auto end = std::chrono::steady_clock::now() + kMostPatience;
  while (frontend_->unserved().empty()) ASSERT_LT(std::chrono::steady_clock::now(), end);
  std::vector<std::future<engine::ReplyPart>> replies;
  const auto send = [&] {
    auto promise = std::make_shared<std::promise<engine::ReplyPart>>();
    engine::InferRequest asked = request(2);
    asked.frame->bytes = replies.size();
    replies.push_back(promise->get_future());
    frontend_->submit(std::move(asked),
                      [promise](engine::ReplyPart reply) { promise->set_value(std::move(reply)); });
  };
  for (int i = 0; i < 40; ++i) send();
  start_scheduler(port);
  while (!frontend_->unserved().empty()) ASSERT_LT(std::chrono::steady_clock::now(), end);
  // Also those that come before it has been asked for the others.
  while (engine_->directed_count() == 0 && replies.size() < 2000) send();
  for (auto& reply : replies) ASSERT_EQ(reply.wait_for(kMostPatience), std::future_status::ready);
  const auto told = engine_->directed();
  ASSERT_EQ(told.size(), replies.size());
  for (size_t i = 0; i < told.size(); ++i) ASSERT_EQ(told[i].frame->bytes, i + 8);
}

TEST_F(FrontendStreamsTest, AFrameWithoutASchedulerEndsAtItsClientsObjective) {
  hosts_->end_frontends();
  hosts_.reset();
  const auto end = std::chrono::steady_clock::now() + kMostPatience;
  while (frontend_->unserved().empty()) ASSERT_LT(std::chrono::steady_clock::now(), end);
  engine::InferRequest asked = request(2);
  asked.frame->slo = Duration::millis(5);
  const engine::ReplyPart reply = ask(std::move(asked));
  EXPECT_TRUE(absl::IsDeadlineExceeded(reply.status));
  EXPECT_EQ(reply.model, "cameras");
  ASSERT_NE(reply.stream, nullptr);
  EXPECT_EQ(reply.stream->advice.input_size, 20u);
  start_scheduler(0);  // that the fixture ends
}

}  // namespace
}  // namespace fermata::cluster
