// How the server ends: what is under way first, but not later than it may.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "serve/http_client.h"
#include "serve/net/acceptor.h"
#include "serve/operations/operations.h"
#include "serve/scripted_engine.h"
#include "serve/server.h"

namespace fermata::serve {
namespace {

constexpr char kInferPath[] = "/v2/models/echo/infer";
constexpr char kRequest[] =
    R"({"inputs":[{"name":"IN","shape":[1,4],"datatype":"FP32","data":[1,2,3,4]}]})";

// An engine whose loads wait until they are let through.
class SlowToLoad : public ScriptedEngine {
 public:
  absl::Status load(std::string_view, std::optional<std::string>) override {
    std::unique_lock lock(gate_);
    ++begun_;
    moved_.notify_all();
    moved_.wait(lock, [this] { return open_; });
    return absl::OkStatus();
  }
  void wait_begun(int loads) {
    std::unique_lock lock(gate_);
    moved_.wait(lock, [&] { return begun_ == loads; });
  }
  void open() {
    const std::scoped_lock lock(gate_);
    open_ = true;
    moved_.notify_all();
  }

 private:
  std::mutex gate_;
  std::condition_variable moved_;
  int begun_ = 0;
  bool open_ = false;
};

class StopTest : public ::testing::Test {
 protected:
  StopTest() {
    auto engine = std::make_unique<SlowToLoad>();
    engine_ = engine.get();
    ListenOptions options;
    options.http = options.grpc = options.metrics = 0;
    server_ = *Server::start(options, std::move(engine));
  }
  // Has begun to stop when this returns: the connections without a request are closed, which it
  // waits for.
  std::thread begin_to_stop() {
    HttpClient idle(server_->ports().http);
    EXPECT_EQ(idle.get("/v2/health/live").status, 200);
    std::thread stop([this] { server_->stop(Duration::seconds(600)); });
    EXPECT_EQ(idle.receive().status, 0);
    return stop;
  }

  SlowToLoad* engine_;
  std::unique_ptr<Server> server_;
};

TEST_F(StopTest, AnswersWhatIsUnderWayAndSaysThatItCloses) {
  engine_->hold = true;
  HttpClient client(server_->ports().http);
  client.send(post_text(kInferPath, kRequest));
  engine_->wait_held(1);
  std::thread stop = begin_to_stop();
  engine_->release();
  auto reply = client.receive();
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.headers["connection"], "close");
  stop.join();
}

TEST_F(StopTest, TurnsAwayLoadsThatHaveNotBegun) {
  std::vector<std::unique_ptr<HttpClient>> clients;
  constexpr int kBegun = Operations::kLoadsAtOnce, kAll = kBegun + 4;
  for (int i = 0; i < kAll; ++i) {
    clients.push_back(std::make_unique<HttpClient>(server_->ports().http));
    EXPECT_EQ(clients.back()->get("/v2/health/live").status, 200);
    clients.back()->send(post_text("/v2/repository/models/echo/load", ""));
    engine_->wait_begun(std::min(i + 1, kBegun));
  }
  // All has been read that was sent before the last of several answers to others.
  HttpClient other(server_->ports().http);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(other.get("/v2/health/live").status, 200);
  std::thread stop = begin_to_stop();
  engine_->open();
  for (int i = 0; i < kBegun; ++i) EXPECT_EQ(clients[i]->receive().status, 200);
  for (int i = kBegun; i < kAll; ++i) EXPECT_EQ(clients[i]->receive().status, 503);
  stop.join();
}

// One may be on its way when the server begins to stop.
TEST_F(StopTest, AnswersTheNextRequestOfAConnectionBeforeItCloses) {
  engine_->hold = true;
  HttpClient busy(server_->ports().http), next(server_->ports().http);
  busy.send(post_text(kInferPath, kRequest));
  engine_->wait_held(1);
  EXPECT_EQ(next.get("/v2/health/ready").status, 200);
  std::thread stop([this] { server_->stop(Duration::seconds(600)); });
  HttpReceived last;
  do {
    last = next.get("/v2/models/echo");
    ASSERT_EQ(last.status, 200);
  } while (last.headers["connection"] != "close");
  engine_->release();
  auto reply = busy.receive();
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.headers["connection"], "close");
  stop.join();
}

TEST_F(StopTest, IsNotReadyBeforeItStopsAndAnswersAsBefore) {
  HttpClient client(server_->ports().http);
  EXPECT_EQ(client.get("/v2/health/ready").body, R"({"ready":true})");
  server_->leave();
  auto reply = client.get("/v2/health/ready");
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(reply.body, R"({"ready":false,"reason":"the server stops"})");
  EXPECT_EQ(client.get("/v2/models/echo/ready").status, 503);
  EXPECT_EQ(client.get("/v2/health/live").status, 200);
  EXPECT_EQ(client.post(kInferPath, kRequest).status, 200);
  engine_->open();
  EXPECT_EQ(client.post("/v2/repository/models/echo/load", "").status, 200);
  EXPECT_EQ(HttpClient(server_->ports().http).post(kInferPath, kRequest).status, 200);
}

// Several have connected when it closes: that of the first is accepted already, and waits to be
// told.
TEST(AcceptorTest, TakesAllThatHaveConnectedBeforeItCloses) {
  using Tcp = boost::asio::ip::tcp;
  boost::asio::io_context io;
  const auto acceptor = *Acceptor::open(io, "127.0.0.1", 0);
  std::vector<Tcp::socket> clients;
  for (int i = 0; i < 3; ++i) {
    clients.emplace_back(io).connect({boost::asio::ip::address_v4::loopback(), acceptor->port()});
  }
  std::vector<Tcp::socket> taken;
  acceptor->start({[&io]() -> boost::asio::io_context& { return io; },
                   [&taken](Tcp::socket socket) { taken.push_back(std::move(socket)); }, [] {}});
  acceptor->close();
  io.poll();
  EXPECT_EQ(taken.size(), clients.size());
}

TEST(OperationsTest, IsReadyWhenAllIsServedOrAnyWhereThatIsAskedFor) {
  ScriptedEngine engine;
  SharedMemory regions;
  const Operations strict(engine, regions), any(engine, regions, true);
  EXPECT_TRUE(strict.ready().ready);
  EXPECT_EQ(strict.ready().reason, "");
  engine.missing = {{"late", "", engine::ModelState::kUnavailable, "no version"}};
  EXPECT_FALSE(strict.ready().ready);
  EXPECT_EQ(strict.ready().reason, "'late' is not served: no version");
  EXPECT_TRUE(any.ready().ready);
  EXPECT_EQ(any.ready().reason, strict.ready().reason);
  EXPECT_TRUE(strict.ready("echo", "").ready);
  EXPECT_FALSE(strict.ready("echo", "2").ready);
  engine.failing = "a run never ended";
  EXPECT_FALSE(strict.ready("echo", "").ready);
  EXPECT_EQ(strict.ready("echo", "").reason, "a run never ended");
  for (int i = 0; i < 20; ++i) engine.missing.push_back(engine.missing.front());
  EXPECT_THAT(strict.ready().reason, testing::EndsWith("; and 16 more"));
  engine.serve_nothing();
  EXPECT_FALSE(any.ready().ready);
  EXPECT_THAT(any.ready().reason, testing::StartsWith("no model is served: 'late' is not"));
  engine.missing.clear();
  EXPECT_EQ(any.ready().reason, "no model is served");
}

TEST(OperationsTest, BoundsLoadsAndTheirConfigurations) {
  SlowToLoad engine;
  SharedMemory regions;
  Operations operations(engine, regions);
  inference::RepositoryModelLoadRequest request;
  auto& config = *(*request.mutable_parameters())["config"].mutable_string_param();
  absl::Status last;
  const auto load = [&] { operations.load(request, [&last](absl::Status s) { last = s; }); };
  config.assign(Operations::kLongestConfig + 1, ' ');
  load();
  EXPECT_EQ(last.code(), absl::StatusCode::kInvalidArgument);
  config.clear();
  for (size_t i = 0; i < Operations::kMostLoads; ++i) {
    operations.load(request, [](absl::Status status) { EXPECT_TRUE(status.ok()) << status; });
  }
  load();
  EXPECT_EQ(last.code(), absl::StatusCode::kResourceExhausted);
  engine.open();
  operations.finish();
}

}  // namespace
}  // namespace fermata::serve
