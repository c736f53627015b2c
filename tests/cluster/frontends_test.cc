// A frontend, a scheduler and a worker, each with connections of its own, in one process.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "cluster/frontend/frontend_engine.h"
#include "cluster/scheduler/hosts.h"
#include "cluster/wire/listener.h"
#include "cluster/worker/worker.h"
#include "engine/fixture.h"
#include "places/places.h"

namespace fermata::cluster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::chrono::minutes kWait{2};  // for what is waited for

// `through` is the model as the only stage of a pipeline, and in `stages` it takes what another
// gave.
std::vector<engine::ServiceOptions> services() {
  engine::PipelineOptions pipeline, stages;
  pipeline.stages = {{.name = "only", .service = "gather"}};
  stages.stages = {{.name = "first", .service = "identity-int64"},
                   {.name = "second", .service = "gather", .inputs = {{"index", "first.y"}}}};
  return {{.name = "through", .pipeline = pipeline}, {.name = "stages", .pipeline = stages}};
}

template <class Is>
void await(Is is) {
  const auto end = std::chrono::steady_clock::now() + kWait;
  while (!is()) {
    ASSERT_LT(std::chrono::steady_clock::now(), end);
    std::this_thread::yield();
  }
}

std::unique_ptr<Worker> make_worker(const std::string& repository,
                                    std::vector<std::string> schedulers,
                                    const std::string& host = {}) {
  Worker::Options options{.schedulers = std::move(schedulers), .name = "one", .host = host};
  options.engine.repository = repository;
  options.engine.probe_program = options.engine.workers.program = fermata_command();
  options.engine.workers.types = {engine::WorkerType{.name = "far", .count = 2}};
  return *Worker::make(std::move(options), [](uint32_t) {});
}

class Scheduler {
 public:
  Scheduler(const std::string& repository, uint16_t port = 0, std::string only = "")
      : hosts_(std::make_shared<Hosts>(
            Options{.host = "127.0.0.1", .port = port, .silence = Duration::seconds(20)})) {
    engine::EngineOptions options;
    options.repository = repository;
    options.probe_program = fermata_command();
    options.inputs_elsewhere = true;
    if (only.empty()) {
      options.services = services();
    } else {
      options.serves = [only](std::string_view model) { return model == only; };
    }
    options.workers.types = {engine::WorkerType{.name = "far", .count = 2, .remote = true}};
    options.workers.remote = hosts_;
    engine_ = *engine::make_engine(options);
    hosts_->serve_frontends(*engine_);
    EXPECT_TRUE(hosts_->listen().ok());
  }
  ~Scheduler() { hosts_->end_frontends(); }
  uint16_t port() const { return hosts_->port(); }
  engine::Engine& engine() { return *engine_; }

 private:
  const std::shared_ptr<Hosts> hosts_;
  std::unique_ptr<engine::Engine> engine_;
};

class Frontends : public testing::Test {
 protected:
  Frontends() {
    for (const char* model : {"gather", "identity-int64"}) folder_.copy_model(model, model);
    scheduler_ = std::make_unique<Scheduler>(folder_.path());
    FrontendEngine::Options options{
        .divisions = {{address()}}, .link = {.name = "front"}, .host = "127.0.0.1"};
    options.engine.services = services();
    frontend_ = *FrontendEngine::make(std::move(options));
  }
  ~Frontends() override {
    if (worker_ == nullptr) return;
    worker_->leave();
    thread_.join();
  }
  std::string address() const { return fmt::format("127.0.0.1:{}", scheduler_->port()); }
  // It keeps what stages give where it listens for others.
  void bring_worker(const std::string& host = {}) {
    worker_ = make_worker(folder_.path(), {address()}, host);
    thread_ = std::thread([this] { worker_->run(); });
  }
  void await_service() {
    await([this] { return frontend_->catalog()->find("gather") != nullptr; });
  }
  engine::InferRequest request(std::vector<int64_t> rows) const {
    engine::InferRequest made;
    made.service = "gather";
    made.id = "mine";
    made.arrival = frontend_->now();
    const auto count = static_cast<int64_t>(rows.size());
    made.inputs = {{"index", DataType::kInt64, {count, 1}, payload_of(std::move(rows))}};
    return made;
  }
  std::future<engine::ReplyPart> ask(engine::InferRequest request, JobId* job = nullptr) {
    auto promise = std::make_shared<std::promise<engine::ReplyPart>>();
    const JobId id = frontend_->submit(std::move(request), [promise](engine::ReplyPart reply) {
      promise->set_value(std::move(reply));  // throws where it is called twice
    });
    if (job != nullptr) *job = id;
    return promise->get_future();
  }
  static engine::ReplyPart take(std::future<engine::ReplyPart> reply) {
    EXPECT_EQ(reply.wait_for(kWait), std::future_status::ready);
    return reply.get();
  }
  static engine::ServiceStatistics row_of(const engine::EngineSnapshot& snapshot) {
    for (const auto& row : snapshot.services) {
      if (row.service == "gather") return row;
    }
    return {};
  }
  static std::vector<float> values(const engine::ReplyPart& reply) {
    const auto bytes = reply.outputs.at(0).data.bytes;
    const auto* first = reinterpret_cast<const float*>(bytes.data());
    return {first, first + bytes.size() / sizeof(float)};
  }

  engine::TemporaryFolder folder_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<FrontendEngine> frontend_;
  std::unique_ptr<Worker> worker_;
  std::thread thread_;
};

TEST_F(Frontends, ARequestIsAnsweredAndNoTensorPassesTheScheduler) {
  bring_worker();
  await_service();
  const engine::ReplyPart reply = take(ask(request({2, 1})));
  ASSERT_TRUE(reply.status.ok()) << reply.status;
  EXPECT_THAT(values(reply), ElementsAre(20, 10));
  EXPECT_EQ(reply.id, "mine");
  EXPECT_EQ(reply.why.variant, "gather");
  const engine::EngineSnapshot snapshot = scheduler_->engine().snapshot();
  ASSERT_EQ(snapshot.cluster.frontends.size(), 1u);
  EXPECT_EQ(snapshot.cluster.frontends[0].requests, 1u);
  EXPECT_EQ(snapshot.cluster.frontends[0].tensors, 0u);
  EXPECT_EQ(snapshot.cluster.hosts.at(0).tensors, 0u);
  EXPECT_EQ(row_of(frontend_->snapshot()).outcomes[0], 1u);
}

TEST_F(Frontends, APipelineRunsAtItsFrontendAndItsStagesAtTheScheduler) {
  bring_worker();
  await_service();
  engine::InferRequest asked = request({2, 1, 0});
  asked.service = "through";
  asked.timeout = Duration::seconds(100);
  asked.explain = true;
  const engine::ReplyPart reply = take(ask(std::move(asked)));
  ASSERT_TRUE(reply.status.ok()) << reply.status;
  EXPECT_THAT(values(reply), ElementsAre(20, 10, 0));
  EXPECT_THAT(reply.why.stages, HasSubstr(R"("stage":"only")"));
  const engine::EngineSnapshot snapshot = scheduler_->engine().snapshot();
  EXPECT_EQ(snapshot.cluster.frontends.at(0).requests, 1u);
  EXPECT_EQ(snapshot.cluster.frontends.at(0).tensors, 0u);
}

TEST_F(Frontends, AStageTakesWhatTheOneBeforeItGave) {
  bring_worker("127.0.0.1");
  await_service();
  for (int i = 0; i < 3; ++i) {
    engine::InferRequest asked = request({2, 1, 0});
    asked.service = "stages";
    asked.inputs[0].name = "x";
    const engine::ReplyPart reply = take(ask(std::move(asked)));
    ASSERT_TRUE(reply.status.ok()) << reply.status;
    EXPECT_THAT(values(reply), ElementsAre(20, 10, 0));
  }
  EXPECT_EQ(scheduler_->engine().snapshot().cluster.hosts.at(0).tensors, 0u);
}

// As in one process: who asks for much and does not read it keeps no more than there is room for.
TEST_F(Frontends, RepliesThatNobodyHasReadKeepLaterRequestsOut) {
  FrontendEngine::Options options{
      .divisions = {{address()}}, .link = {.name = "front"}, .host = "127.0.0.1"};
  options.engine.services = services();
  options.engine.limits.held_bytes = 13'000;
  frontend_ = *FrontendEngine::make(std::move(options));
  bring_worker();
  await_service();
  const std::vector<int64_t> rows(1200);  // 9,600 bytes, and 4,800 of the reply
  {
    const engine::ReplyPart unread = take(ask(request(rows)));
    ASSERT_TRUE(unread.status.ok()) << unread.status;
    const engine::ReplyPart next = take(ask(request(rows)));
    EXPECT_TRUE(absl::IsResourceExhausted(next.status)) << next.status;
  }
  EXPECT_TRUE(take(ask(request(rows))).status.ok());
}

// A worker would fetch nothing for it.
TEST_F(Frontends, ASchedulerRunsNoPipelineOfAFrontendWithAnotherConfiguration) {
  std::promise<engine::ReplyPart> promise;
  engine::InferRequest whole;
  whole.service = "through";
  whole.elsewhere = std::make_shared<const engine::InputsElsewhere>();
  scheduler_->engine().submit(std::move(whole), [&promise](engine::ReplyPart reply) {
    promise.set_value(std::move(reply));
  });
  EXPECT_TRUE(absl::IsFailedPrecondition(promise.get_future().get().status));
}

TEST_F(Frontends, AClientThatLeavesTakesItsPipelineAlong) {
  await_service();
  engine::InferRequest asked = request({1});
  asked.service = "through";
  JobId job;
  auto reply = ask(std::move(asked), &job);  // its stage waits for a worker
  const auto waiting = [this] {
    uint64_t sum = 0;
    for (const auto& row : scheduler_->engine().snapshot().services) sum += row.pending;
    return sum;
  };
  await([&] { return waiting() == 1; });
  frontend_->cancel(job);
  EXPECT_TRUE(absl::IsCancelled(take(std::move(reply)).status));
  await([&] { return waiting() == 0; });
}

TEST_F(Frontends, WhatAModelRejectsIsTold) {
  bring_worker();
  await_service();
  const engine::ReplyPart reply = take(ask(request({1000})));  // it has no such row
  EXPECT_FALSE(reply.status.ok());
  EXPECT_TRUE(reply.outputs.empty());
}

TEST_F(Frontends, ARequestThatDoesNotFitIsNotAskedFor) {
  await_service();
  engine::InferRequest wrong = request({1});
  wrong.inputs[0].shape = {1, 2};
  EXPECT_TRUE(absl::IsInvalidArgument(take(ask(std::move(wrong))).status));
  wrong = request({1});
  wrong.service = "other";
  EXPECT_TRUE(absl::IsNotFound(take(ask(std::move(wrong))).status));
  EXPECT_EQ(scheduler_->engine().snapshot().cluster.frontends.at(0).requests, 0u);
}

TEST_F(Frontends, AClientThatLeavesTakesItsRequestFromTheScheduler) {
  await_service();
  JobId job;
  auto reply = ask(request({1}), &job);  // which waits for a worker
  const auto of = [this] { return row_of(scheduler_->engine().snapshot()); };
  await([&] { return of().pending == 1; });
  frontend_->cancel(job);
  EXPECT_TRUE(absl::IsCancelled(take(std::move(reply)).status));
  await([&] { return of().pending == 0; });
}

TEST_F(Frontends, AFrontendThatGoesTakesItsRequestsFromTheScheduler) {
  await_service();
  auto reply = ask(request({1}));
  const auto of = [this] { return row_of(scheduler_->engine().snapshot()); };
  await([&] { return of().pending == 1; });
  frontend_.reset();
  EXPECT_TRUE(absl::IsUnavailable(take(std::move(reply)).status));
  await([&] { return of().pending == 0; });
}

TEST_F(Frontends, WhatWaitsIsAskedOfTheNextScheduler) {
  await_service();
  auto reply = ask(request({2}));
  const auto of = [this] { return row_of(scheduler_->engine().snapshot()); };
  await([&] { return of().pending == 1; });
  const uint16_t port = scheduler_->port();
  scheduler_.reset();
  scheduler_ = std::make_unique<Scheduler>(folder_.path(), port);
  bring_worker();
  const engine::ReplyPart answer = take(std::move(reply));
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_THAT(values(answer), ElementsAre(20));
}

// Models of two schedulers, each with a worker of its own.
TEST(Divisions, AFrontendAsksForEachModelTheSchedulerThatHasIt) {
  engine::TemporaryFolder folder;
  const std::vector<std::string> models = {"gather", "other"};
  FrontendEngine::Options options{.link = {.name = "front"}, .host = "127.0.0.1"};
  options.engine.services = services();  // a pipeline of one division's model
  std::vector<std::unique_ptr<Scheduler>> schedulers;
  for (const std::string& model : models) folder.copy_model("gather", model);
  for (const std::string& model : models) {
    schedulers.push_back(std::make_unique<Scheduler>(folder.path(), 0, model));
    options.divisions.push_back({fmt::format("127.0.0.1:{}", schedulers.back()->port())});
  }
  std::vector<std::unique_ptr<Worker>> workers;
  std::vector<std::thread> threads;
  for (const auto& addresses : options.divisions) {
    workers.push_back(make_worker(folder.path(), addresses));
    threads.emplace_back([worker = workers.back().get()] { worker->run(); });
  }
  const auto frontend = *FrontendEngine::make(std::move(options));
  const auto outcome = [&](const std::string& service, Duration timeout) {
    auto promise = std::make_shared<std::promise<engine::ReplyPart>>();
    engine::InferRequest asked{.service = service};
    asked.arrival = frontend->now();
    asked.timeout = timeout;
    asked.inputs = {{"index", DataType::kInt64, {1, 1}, payload_of(std::vector<int64_t>{2})}};
    frontend->submit(std::move(asked),
                     [promise](engine::ReplyPart reply) { promise->set_value(std::move(reply)); });
    return promise->get_future().get().status;
  };
  for (const auto& service : {"gather", "other", "through"}) {
    await([&] { return frontend->catalog()->find(service) != nullptr; });
    const absl::Status status = outcome(service, Duration::seconds(100));
    EXPECT_TRUE(status.ok()) << service << ": " << status;
  }
  for (const auto& scheduler : schedulers) {  // one has the pipeline's stage too
    const bool first = scheduler == schedulers.front();
    EXPECT_EQ(scheduler->engine().snapshot().cluster.frontends.at(0).requests, first ? 2u : 1u);
    EXPECT_TRUE(absl::IsNotFound(scheduler->engine().load(models[first ? 1 : 0], {})));
  }
  EXPECT_EQ(frontend->index().size(), 3u);  // with the pipeline, which no scheduler knows

  workers[1]->leave();
  threads[1].join();
  schedulers[1].reset();
  await([&] { return frontend->unserved().size() == 1; });
  EXPECT_EQ(frontend->unserved()[0].name, "scheduler");
  EXPECT_TRUE(outcome("gather", Duration::seconds(100)).ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(outcome("other", Duration::millis(1))));
  workers[0]->leave();
  threads[0].join();
}

// Readiness says it to whoever asks.
TEST(Frontend, SaysWhyNoSchedulerTakesIt) {
  Listener listener({});
  const auto refuse = [](const Frame& first, const std::shared_ptr<Channel>& channel) {
    EXPECT_EQ(first.message.frontend().version(), kVersion);
    Message answer;
    answer.mutable_refused()->set_why("it speaks another version");
    (void)channel->send(answer);
    channel->cut();
  };
  ASSERT_TRUE(listener.listen("127.0.0.1", 0, refuse).ok());
  const auto frontend =
      *FrontendEngine::make({.divisions = {{fmt::format("127.0.0.1:{}", listener.port())}},
                             .link = {.name = "front"},
                             .host = "127.0.0.1"});
  const auto end = std::chrono::steady_clock::now() + kWait;
  while (frontend->unserved().at(0).reason.find("another version") == std::string::npos) {
    ASSERT_LT(std::chrono::steady_clock::now(), end) << frontend->unserved().at(0).reason;
    std::this_thread::yield();
  }
  EXPECT_THAT(frontend->unserved().at(0).reason,
              HasSubstr("it refuses this frontend: it speaks another version"));
  listener.close();
  listener.wait();
}

TEST_F(Frontends, ADeadlineIsKeptWithoutAScheduler) {
  await_service();
  scheduler_.reset();
  await([this] {
    return frontend_->unserved().size() == 1 && frontend_->unserved()[0].name == "scheduler";
  });
  engine::InferRequest soon = request({1});
  soon.timeout = Duration::millis(1);
  EXPECT_TRUE(absl::IsDeadlineExceeded(take(ask(std::move(soon))).status));
}

TEST_F(Frontends, AServerThatDecidesForFrontendsTakesNoInputs) {
  std::promise<engine::ReplyPart> promise;
  scheduler_->engine().submit(
      request({1}), [&promise](engine::ReplyPart reply) { promise.set_value(std::move(reply)); });
  EXPECT_TRUE(absl::IsFailedPrecondition(promise.get_future().get().status));
}

}  // namespace
}  // namespace fermata::cluster
