// What clients may hold: messages as they are sent, when they are unpacked, and as replies.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <mutex>

#include "base/byte_budget.h"
#include "grpc_service.grpc.pb.h"
#include "serve/http_client.h"
#include "serve/net/compression.h"
#include "serve/scripted_engine.h"
#include "serve/server.h"

namespace fermata::serve {
namespace {

using inference::ModelInferRequest;
using inference::ModelInferResponse;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr char kEchoPath[] = "/v2/models/echo/infer";
constexpr size_t kMiB = 1 << 20;

TEST(ByteBudget, BoundsItselfAndTheWhole) {
  const auto whole = std::make_shared<ByteBudget>(10);
  const auto part = std::make_shared<ByteBudget>(8, whole);
  HeldBytes one(part);
  EXPECT_TRUE(one.grow_to(6));
  EXPECT_FALSE(one.grow_by(3));  // of the part
  {
    HeldBytes other(std::make_shared<ByteBudget>(8, whole));
    EXPECT_FALSE(other.grow_to(5));  // of the whole
    EXPECT_TRUE(other.grow_to(4));
    EXPECT_EQ(whole->used(), 10u);
  }
  HeldBytes moved = std::move(one);
  EXPECT_EQ(whole->used(), 6u);
  moved = HeldBytes();
  EXPECT_EQ(whole->used(), 0u);
  EXPECT_EQ(part->used(), 0u);
}

class BudgetTest : public ::testing::Test {
 protected:
  explicit BudgetTest(uint32_t threads = 1) {
    auto engine = std::make_unique<ScriptedEngine>();
    engine_ = engine.get();
    ListenOptions options;
    options.http = options.grpc = options.metrics = 0;
    options.threads = threads;
    options.max_request_mb = 1;
    options.memory_mb = 8;  // 2 of them for each connection
    server_ = *Server::start(options, std::move(engine));
    stub_ = inference::GRPCInferenceService::NewStub(grpc::CreateChannel(
        fmt::format("127.0.0.1:{}", server_->ports().grpc), grpc::InsecureChannelCredentials()));
  }

  // A binary request of nearly `bytes`.
  static std::string request(size_t bytes, std::string& headers) {
    const size_t items = bytes / 16;
    const std::string json = fmt::format(
        R"({{"inputs":[{{"name":"IN","shape":[{},4],"datatype":"FP32","parameters":{{"binary_data_size":{}}}}}],)"
        R"("outputs":[{{"name":"OUT","parameters":{{"binary_data":true}}}}]}})",
        items, items * 16);
    headers = fmt::format("Inference-Header-Content-Length: {}\r\n", json.size());
    return json + std::string(items * 16, '\0');
  }
  static ModelInferRequest grpc_request(size_t items) {
    ModelInferRequest request;
    request.set_model_name("echo");
    auto& input = *request.add_inputs();
    input.set_name("IN");
    input.set_datatype("FP32");
    input.add_shape(static_cast<int64_t>(items));
    input.add_shape(4);
    request.add_raw_input_contents(std::string(items * 16, '\0'));
    return request;
  }
  grpc::Status infer(const ModelInferRequest& request,
                     grpc_compression_algorithm compression = GRPC_COMPRESS_NONE) {
    grpc::ClientContext context;
    context.set_compression_algorithm(compression);
    ModelInferResponse response;
    return stub_->ModelInfer(&context, request, &response);
  }

  // By all clients, as the metrics say.
  double held() {
    HttpClient client(server_->ports().metrics);
    const std::string text = client.get("/metrics").body, name = "\nfermata_held_bytes ";
    return std::stod(text.substr(text.find(name) + name.size()));
  }

  ScriptedEngine* engine_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<inference::GRPCInferenceService::Stub> stub_;
};

TEST_F(BudgetTest, AnswersWithTooManyRequestsWhereMemoryIsShort) {
  engine_->hold = true;
  std::string headers;
  const std::string body = request(kMiB - 2000, headers);
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(std::make_unique<HttpClient>(server_->ports().http));
    clients.back()->send(post_text(kEchoPath, body, headers));
    engine_->wait_held(static_cast<size_t>(i + 1));
  }
  HttpClient late(server_->ports().http);
  late.send(post_text(kEchoPath, body, headers));
  const auto refused = late.receive();
  EXPECT_EQ(refused.status, 429);
  EXPECT_THAT(refused.body, HasSubstr("no room for the body"));
  EXPECT_EQ(infer(grpc_request(8000)).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  engine_->hold = false;
  EXPECT_TRUE(infer(grpc_request(1000)).ok());  // a small one has room of its own
  clients.clear();                              // what they held comes free, soon
  engine_->wait_cancelled(8);
  int status = 429;
  while (status == 429) {
    HttpClient next(server_->ports().http);
    status = next.post(kEchoPath, body, headers).status;
  }
  EXPECT_EQ(status, 200);
}

// Calls that are answered by nobody, over one connection.
TEST_F(BudgetTest, BoundsWhatTheCallsOfAConnectionHold) {
  engine_->hold = true;
  struct Call {
    grpc::ClientContext context;
    ModelInferResponse response;
    grpc::Status status;
    bool done = false;
  };
  std::mutex mutex;
  std::condition_variable changed;
  const ModelInferRequest large = grpc_request(50'000);  // 0.8 MB of the connection's 2
  std::vector<std::unique_ptr<Call>> calls;
  const auto start = [&] {
    Call& call = *calls.emplace_back(std::make_unique<Call>());
    stub_->async()->ModelInfer(&call.context, &large, &call.response, [&](grpc::Status status) {
      const std::scoped_lock lock(mutex);
      call.status = std::move(status);
      call.done = true;
      changed.notify_all();
    });
  };
  const auto wait = [&](Call& call) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return call.done; });
    return call.status;
  };
  for (size_t i = 1; i <= 2; ++i) {
    start();
    engine_->wait_held(i);
  }
  start();
  EXPECT_EQ(wait(*calls.back()).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  HttpClient other(server_->ports().http);
  std::string headers;
  const std::string body = request(kMiB - 2000, headers);
  other.send(post_text(kEchoPath, body, headers));
  engine_->wait_held(3);
  calls[0]->context.TryCancel();
  calls[1]->context.TryCancel();
  EXPECT_EQ(wait(*calls[0]).error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(wait(*calls[1]).error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(BudgetTest, BoundsWhatABodyUnpacksTo) {
  HttpClient client(server_->ports().http);
  const std::string bomb = compress({std::string(64 * kMiB, ' ')}, Encoding::kGzip);
  const auto reply = client.post(kEchoPath, bomb, "Content-Encoding: gzip\r\n");
  EXPECT_EQ(reply.status, 400);
  EXPECT_THAT(reply.body, HasSubstr("larger than 1048576 bytes"));
}

TEST_F(BudgetTest, TakesCompressedMessagesOverGrpc) {
  for (const auto algorithm : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    EXPECT_TRUE(infer(grpc_request(1000), algorithm).ok());
    const grpc::Status bomb = infer(grpc_request(4'000'000), algorithm);
    EXPECT_EQ(bomb.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(bomb.error_message(), HasSubstr("larger than 1048576 bytes"));
  }
  EXPECT_TRUE(infer(grpc_request(1)).ok());
}

// Two bytes on the wire each.
TEST_F(BudgetTest, BoundsWhatTheInputsOfAMessageParseTo) {
  ModelInferRequest request;
  for (int i = 0; i < 90'000; ++i) request.add_inputs();
  for (const auto algorithm : {GRPC_COMPRESS_NONE, GRPC_COMPRESS_GZIP}) {
    const grpc::Status refused = infer(request, algorithm);
    EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);  // later is no better
    EXPECT_THAT(refused.error_message(),
                AllOf(HasSubstr("the message's parts would take 22 MiB"),
                      HasSubstr("may hold 2 MiB"), HasSubstr("raw_input_contents")));
  }
  EXPECT_TRUE(infer(grpc_request(1)).ok());
}

TEST_F(BudgetTest, BoundsMessagesOfOtherCalls) {
  inference::RepositoryModelLoadRequest request;
  request.set_model_name("echo");
  const auto load = [&] {
    grpc::ClientContext context;
    inference::RepositoryModelLoadResponse response;
    return stub_->RepositoryModelLoad(&context, request, &response);
  };
  EXPECT_TRUE(load().ok());
  (*request.mutable_parameters())["config"].set_string_param(std::string(kMiB - 1000, ' '));
  EXPECT_TRUE(load().ok());
  for (int i = 0; i < 50'000; ++i) (*request.mutable_parameters())[std::to_string(i)];
  request.mutable_parameters()->erase("config");
  EXPECT_EQ(load().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(BudgetTest, TakesNothingForBodiesThatAreOnlyAnnounced) {
  std::vector<std::unique_ptr<HttpClient>> idle;
  for (int i = 0; i < 20; ++i) {
    idle.push_back(std::make_unique<HttpClient>(server_->ports().http));
    idle.back()->send(
        fmt::format("POST {} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", kEchoPath, kMiB));
  }
  HttpClient client(server_->ports().http);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(client.get("/v2/health/live").status, 200);
  std::string headers;
  const std::string body = request(kMiB - 2000, headers);
  EXPECT_EQ(client.post(kEchoPath, body, headers).status, 200);
}

TEST_F(BudgetTest, EndsABodyThatStallsWhereItsMemoryIsWanted) {
  engine_->fail = absl::NotFoundError("no such model");
  std::string headers;
  const std::string body = request(kMiB - 2000, headers);
  const std::string whole = post_text(kEchoPath, body, headers);
  std::vector<std::unique_ptr<HttpClient>> stalled;
  for (int i = 0; i < 8; ++i) {
    stalled.push_back(std::make_unique<HttpClient>(server_->ports().http));
    stalled.back()->send(std::string_view(whole).substr(0, whole.size() - 1));
  }
  while (held() < 8 * static_cast<double>(body.size())) {
  }
  int status = 429;
  while (status == 429) {
    HttpClient next(server_->ports().http);
    next.send(whole);
    status = next.receive().status;
  }
  EXPECT_EQ(status, 404);
  std::map<int, int> replies;
  for (const auto& client : stalled) {
    client->send(std::string_view(whole).substr(whole.size() - 1));
    ++replies[client->receive().status];
  }
  EXPECT_THAT(replies, ElementsAre(Pair(404, 7), Pair(408, 1)));
}

// Connections take turns on the threads: those that stall are all of the first.
class BudgetOfThreadsTest : public BudgetTest {
 protected:
  BudgetOfThreadsTest() : BudgetTest(3) {}
};

TEST_F(BudgetOfThreadsTest, EndsABodyThatStallsOnAnotherThread) {
  engine_->fail = absl::NotFoundError("no such model");
  std::string headers;
  const std::string body = request(kMiB - 2000, headers);
  const std::string whole = post_text(kEchoPath, body, headers);
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 3 * 8; ++i) {
    clients.push_back(std::make_unique<HttpClient>(server_->ports().http));
    if (i % 3 == 0) clients.back()->send(std::string_view(whole).substr(0, whole.size() - 1));
  }
  while (held() < 8 * static_cast<double>(body.size())) {
  }
  EXPECT_EQ(clients[1]->get("/v2/health/live").status, 200);
  int status = 429;
  while (status == 429) {
    HttpClient first(server_->ports().http), second(server_->ports().http),
        third(server_->ports().http);
    second.send(whole);
    status = second.receive().status;
  }
  EXPECT_EQ(status, 404);
  std::map<int, int> replies;
  for (size_t i = 0; i < clients.size(); i += 3) {
    clients[i]->send(std::string_view(whole).substr(whole.size() - 1));
    ++replies[clients[i]->receive().status];
  }
  EXPECT_THAT(replies, ElementsAre(Pair(404, 7), Pair(408, 1)));
}

// What is made of JSON is much larger than its text: values of one byte, parts that say nothing.
TEST_F(BudgetTest, BoundsWhatJsonParsesTo) {
  const auto values = [](std::string_view value, size_t count) {
    std::string list(value);
    for (size_t i = 1; i < count; ++i) list.append(",").append(value);
    return list;
  };
  const auto tensor = [&](std::string_view value, size_t items) {
    return fmt::format(
        R"({{"inputs":[{{"name":"IN","shape":[{},4],"datatype":"FP32","data":[{}]}}]}})", items,
        values(value, 4 * items));
  };
  const auto post = [&](std::string_view path, std::string_view body) {
    while (held() > 0) {  // what the answer before was for is let go a moment after it
    }
    HttpClient client(server_->ports().http);
    return client.post(path, body);
  };
  const auto short_ones = post(kEchoPath, tensor("1", 40'000));
  EXPECT_EQ(short_ones.status, 400);  // later is no better
  EXPECT_THAT(short_ones.body,
              AllOf(HasSubstr("parsing the JSON would take"), HasSubstr("binary part")));
  EXPECT_EQ(post(kEchoPath, tensor("0.123456789012345678901234", 3'000)).status, 200);
  const std::string outputs =
      R"({"inputs":[],"outputs":[)" + values(R"({"name":"OUT"})", 15'000) + "]}";
  const auto parts = post(kEchoPath, outputs);
  EXPECT_EQ(parts.status, 400);
  EXPECT_THAT(parts.body, HasSubstr("parts of the request"));
  const auto index = post("/v2/repository/index", R"({"x":[)" + values("1", 50'000) + "]}");
  EXPECT_EQ(index.status, 400);
  EXPECT_THAT(index.body, HasSubstr("parsing the JSON"));
  EXPECT_EQ(post("/v2/repository/index", "").status, 200);
  while (held() > 0) {
  }
}

TEST_F(BudgetTest, BoundsMessagesAndMetadataOverGrpc) {
  EXPECT_EQ(infer(grpc_request(100'000)).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  grpc::ClientContext context;
  context.AddMetadata("long", std::string(100'000, 'x'));
  ModelInferResponse response;
  EXPECT_EQ(stub_->ModelInfer(&context, grpc_request(1), &response).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  // gRPC may end the connection that carried the metadata; others are served as before.
  grpc::ChannelArguments own_connection;
  own_connection.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const auto other = inference::GRPCInferenceService::NewStub(
      grpc::CreateCustomChannel(fmt::format("127.0.0.1:{}", server_->ports().grpc),
                                grpc::InsecureChannelCredentials(), own_connection));
  grpc::ClientContext next;
  EXPECT_TRUE(other->ModelInfer(&next, grpc_request(1), &response).ok());
}

// Long JSON is read and written by background threads; the answers are the same.
TEST_F(BudgetTest, AnswersLongJson) {
  std::string numbers = "1";
  for (int i = 1; i < 40'000; ++i) numbers += ",1";
  HttpClient client(server_->ports().http);
  const auto reply = client.post(
      kEchoPath,
      R"({"inputs":[{"name":"IN","shape":[10000,4],"datatype":"FP32","data":[)" + numbers + "]}]}");
  EXPECT_EQ(reply.status, 200);
  EXPECT_THAT(reply.body, HasSubstr(R"("shape":[10000,4],"data":[1,1,)"));
}

class AdminTest : public ::testing::Test {
 protected:
  void start(ListenOptions options) {
    options.http = options.grpc = options.metrics = 0;
    server_ = *Server::start(options, std::make_unique<ScriptedEngine>());
  }
  int load(uint16_t port) {
    HttpClient client(port);
    return client.post("/v2/repository/models/echo/load", "").status;
  }
  grpc::StatusCode load_over_grpc() {
    const auto stub = inference::GRPCInferenceService::NewStub(grpc::CreateChannel(
        fmt::format("127.0.0.1:{}", server_->ports().grpc), grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    inference::RepositoryModelLoadRequest request;
    request.set_model_name("echo");
    inference::RepositoryModelLoadResponse response;
    return stub->RepositoryModelLoad(&context, request, &response).error_code();
  }
  std::unique_ptr<Server> server_;
};

TEST_F(AdminTest, IsOffWhereSaidSo) {
  start({.admin = false});
  EXPECT_EQ(load(server_->ports().http), 403);
  EXPECT_EQ(load_over_grpc(), grpc::StatusCode::PERMISSION_DENIED);
  HttpClient client(server_->ports().http);
  EXPECT_EQ(client.get("/v2/fermata/decisions").status, 403);
  EXPECT_EQ(client.get("/v2/systemsharedmemory/status").status, 403);
  EXPECT_EQ(client.post("/v2/repository/index", "").status, 200);
}

TEST_F(AdminTest, MayHaveAPortOfItsOwn) {
  start({.admin_port = uint16_t{0}});
  EXPECT_EQ(load(server_->ports().http), 403);
  EXPECT_EQ(load_over_grpc(), grpc::StatusCode::PERMISSION_DENIED);
  ASSERT_NE(server_->ports().admin, 0);
  EXPECT_EQ(load(server_->ports().admin), 200);
}

}  // namespace
}  // namespace fermata::serve
