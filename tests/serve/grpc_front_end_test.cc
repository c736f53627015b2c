#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <thread>

#include "grpc_service.grpc.pb.h"
#include "serve/call/status_map.h"
#include "serve/scripted_engine.h"
#include "serve/server.h"

namespace fermata::serve {
namespace {

using inference::ModelInferRequest;
using inference::ModelInferResponse;
using inference::ModelStreamInferResponse;
using ::testing::HasSubstr;

class GrpcFrontEndTest : public ::testing::Test {
 protected:
  GrpcFrontEndTest() {
    auto engine = std::make_unique<ScriptedEngine>();
    engine_ = engine.get();
    ListenOptions options;
    options.http = options.grpc = options.metrics = 0;
    server_ = *Server::start(options, std::move(engine));
    grpc::ChannelArguments unlimited;
    unlimited.SetMaxReceiveMessageSize(-1);
    channel_ = grpc::CreateCustomChannel(fmt::format("127.0.0.1:{}", server_->ports().grpc),
                                         grpc::InsecureChannelCredentials(), unlimited);
    stub_ = inference::GRPCInferenceService::NewStub(channel_);
  }

  static ModelInferRequest good() {
    ModelInferRequest request;
    request.set_model_name("echo");
    request.set_id("9");
    auto& input = *request.add_inputs();
    input.set_name("IN");
    input.set_datatype("FP32");
    input.add_shape(1);
    input.add_shape(4);
    request.add_raw_input_contents(std::string(16, '\x01'));
    return request;
  }
  grpc::Status infer(const ModelInferRequest& request, ModelInferResponse& response) {
    grpc::ClientContext context;
    return stub_->ModelInfer(&context, request, &response);
  }
  void expect_alive() {
    ModelInferResponse response;
    EXPECT_TRUE(infer(good(), response).ok());
  }

  ScriptedEngine* engine_;
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<inference::GRPCInferenceService::Stub> stub_;
};

TEST_F(GrpcFrontEndTest, AnswersRawWithRaw) {
  ModelInferResponse response;
  ASSERT_TRUE(infer(good(), response).ok());
  EXPECT_EQ(response.model_name(), "echo");
  EXPECT_EQ(response.id(), "9");
  EXPECT_EQ(response.outputs(0).name(), "OUT");
  EXPECT_EQ(response.raw_output_contents(0), std::string(16, '\x01'));
}

TEST_F(GrpcFrontEndTest, TakesTypedContents) {
  ModelInferRequest request = good();
  request.clear_raw_input_contents();
  for (const float value : {1.f, 2.f, 3.f, 4.f}) {
    request.mutable_inputs(0)->mutable_contents()->add_fp32_contents(value);
  }
  ModelInferResponse response;
  ASSERT_TRUE(infer(request, response).ok());
  const float expected[4] = {1, 2, 3, 4};
  EXPECT_EQ(response.raw_output_contents(0),
            std::string(reinterpret_cast<const char*>(expected), sizeof(expected)));
}

TEST_F(GrpcFrontEndTest, TakesMessagesAboveTheDefaultLimit) {
  ModelInferRequest request = good();
  request.mutable_inputs(0)->set_shape(0, 400'000);
  request.set_raw_input_contents(0, std::string(6'400'000, 'x'));
  ModelInferResponse response;
  ASSERT_TRUE(infer(request, response).ok());
  EXPECT_EQ(response.raw_output_contents(0).size(), 6'400'000u);
}

TEST_F(GrpcFrontEndTest, KnowsOfEachCallWhichConnectionItCameOn) {
  const auto connect = [this] {
    grpc::ChannelArguments own;
    own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return inference::GRPCInferenceService::NewStub(
        grpc::CreateCustomChannel(fmt::format("127.0.0.1:{}", server_->ports().grpc),
                                  grpc::InsecureChannelCredentials(), own));
  };
  const auto number_of = [this](auto& stub) {
    grpc::ClientContext context;
    ModelInferResponse response;
    EXPECT_TRUE(stub.ModelInfer(&context, good(), &response).ok());
    return engine_->last().connection;
  };
  std::set<uint64_t> numbers;
  const auto stays = connect();
  const uint64_t number = number_of(*stays);
  for (int i = 0; i < 10; ++i) {
    const auto goes = connect();
    const uint64_t another = number_of(*goes);
    EXPECT_EQ(number_of(*goes), another);
    EXPECT_TRUE(numbers.insert(another).second);
    EXPECT_EQ(number_of(*stays), number);
  }
  EXPECT_EQ(numbers.count(number) + numbers.count(0), 0u);
}

TEST_F(GrpcFrontEndTest, RefusesWhatIsWrongAndGoesOn) {
  using Change = void (*)(ModelInferRequest&);
  const std::pair<Change, const char*> cases[] = {
      {[](auto& r) { r.mutable_inputs(0)->clear_name(); }, "an input has no name"},
      {[](auto& r) { r.mutable_inputs(0)->set_datatype("FP8"); }, "\"FP8\" is not a datatype"},
      {[](auto& r) { r.add_raw_input_contents("x"); }, "2 entries, the inputs take 1"},
      {[](auto& r) { r.clear_raw_input_contents(); }, "contents have 0 elements"},
      {[](auto& r) { *r.add_inputs() = r.inputs(0); }, "no entry in raw_input_contents"},
      {[](auto& r) { r.mutable_inputs(0)->mutable_contents()->add_int_contents(1); }, "beside"},
      {[](auto& r) { (*r.mutable_parameters())["timeout"].set_int64_param(-5); }, "timeout is -5"},
      {[](auto& r) { (*r.mutable_parameters())["explain"].set_int64_param(1); }, "true or false"},
      {[](auto& r) {
         auto& parameters = *r.mutable_inputs(0)->mutable_parameters();
         parameters["shared_memory_region"].set_string_param("r");
       },
       "shared_memory_byte_size is missing"},
      {[](auto& r) { r.add_outputs(); }, "an output has no name"},
  };
  for (const auto& [change, says] : cases) {
    ModelInferRequest request = good();
    change(request);
    ModelInferResponse response;
    const grpc::Status status = infer(request, response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << says;
    EXPECT_THAT(status.error_message(), HasSubstr(says));
    expect_alive();
  }
}

TEST_F(GrpcFrontEndTest, PassesParametersAndStatusesOn) {
  ModelInferRequest request = good();
  (*request.mutable_parameters())["timeout"].set_int64_param(2500);
  (*request.mutable_parameters())["priority"].set_uint64_param(1);
  (*request.mutable_parameters())["explain"].set_bool_param(true);
  (*request.mutable_parameters())["triton_enable_empty_final_response"].set_bool_param(false);
  ModelInferResponse response;
  ASSERT_TRUE(infer(request, response).ok());
  EXPECT_EQ(engine_->last().timeout, Duration::micros(2500));
  EXPECT_TRUE(engine_->last().cutoff.is_infinite());
  EXPECT_EQ(response.parameters().at("run_us").int64_param(), 40);
  engine_->fail = absl::DeadlineExceededError("too late");
  const grpc::Status status = infer(request, response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(status.error_message(), "Deadline Exceeded: too late");
  (*request.mutable_parameters())["sequence_id"].set_string_param("s");
  EXPECT_EQ(infer(request, response).error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

TEST_F(GrpcFrontEndTest, TakesTheClientsDeadlineAsCutoff) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::hours(1));
  ModelInferResponse response;
  const Time before = engine_->now();
  ASSERT_TRUE(stub_->ModelInfer(&context, good(), &response).ok());
  EXPECT_GT(engine_->last().cutoff, before + Duration::seconds(3000));
  EXPECT_LE(engine_->last().cutoff, engine_->now() + Duration::seconds(3700));
}

TEST_F(GrpcFrontEndTest, CancelsWhatAClientLeaves) {
  engine_->hold = true;
  grpc::ClientContext context;
  grpc::Status status;
  std::thread call([&] {
    ModelInferResponse response;
    status = stub_->ModelInfer(&context, good(), &response);
  });
  engine_->wait_held(1);
  context.TryCancel();
  engine_->wait_cancelled(1);
  call.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
  engine_->hold = false;
  expect_alive();
}

TEST_F(GrpcFrontEndTest, StreamsInOrderAndSurvivesErrors) {
  grpc::ClientContext context;
  auto stream = stub_->ModelStreamInfer(&context);
  ModelInferRequest bad = good();
  bad.set_id("bad");
  bad.mutable_inputs(0)->set_datatype("FP8");
  stream->Write(good());
  stream->Write(bad);
  stream->Write(good());
  stream->WritesDone();
  ModelStreamInferResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.infer_response().id(), "9");
  EXPECT_TRUE(response.infer_response().parameters().at("triton_final_response").bool_param());
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.infer_response().id(), "bad");
  EXPECT_THAT(response.error_message(), HasSubstr("FP8"));
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.error_message(), "");
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(GrpcFrontEndTest, EndsAStreamWithTheErrorWhereAskedTo) {
  grpc::ClientContext context;
  context.AddMetadata("triton_grpc_error", "true");
  auto stream = stub_->ModelStreamInfer(&context);
  engine_->fail = absl::NotFoundError("no such model");
  stream->Write(good());
  ModelStreamInferResponse response;
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(GrpcFrontEndTest, CancelsWhatWaitsBehindAnErrorThatEndsTheStream) {
  engine_->hold = true;
  grpc::ClientContext context;
  context.AddMetadata("triton_grpc_error", "true");
  auto stream = stub_->ModelStreamInfer(&context);
  stream->Write(good());
  stream->Write(good());
  engine_->wait_held(2);
  ModelInferRequest bad = good();
  bad.mutable_inputs(0)->set_datatype("FP8");
  stream->Write(bad);
  engine_->wait_cancelled(2);
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(GrpcFrontEndTest, CancelsWhatAStreamLeaves) {
  engine_->hold = true;
  grpc::ClientContext context;
  auto stream = stub_->ModelStreamInfer(&context);
  stream->Write(good());
  stream->Write(good());
  engine_->wait_held(2);
  context.TryCancel();
  engine_->wait_cancelled(2);
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(GrpcFrontEndTest, AnswersOperations) {
  {
    grpc::ClientContext context;
    inference::ModelMetadataRequest request;
    request.set_name("echo");
    inference::ModelMetadataResponse response;
    ASSERT_TRUE(stub_->ModelMetadata(&context, request, &response).ok());
    EXPECT_EQ(response.platform(), "onnxruntime_onnx");
    EXPECT_EQ(response.inputs(0).shape(0), -1);
  }
  {
    grpc::ClientContext context;
    inference::RepositoryModelUnloadRequest request;
    request.set_model_name("nobody");
    inference::RepositoryModelUnloadResponse response;
    EXPECT_TRUE(stub_->RepositoryModelUnload(&context, request, &response).ok());
  }
  {
    grpc::ClientContext context;
    inference::TraceSettingResponse response;
    inference::TraceSettingRequest request;  // as Triton's clients send it by habit
    (*request.mutable_settings())["trace_level"].add_value("TIMESTAMPS");
    EXPECT_TRUE(stub_->TraceSetting(&context, request, &response).ok());
    EXPECT_EQ(response.settings().at("trace_level").value(0), "OFF");
  }
  {
    grpc::ClientContext context;
    inference::LogSettingsResponse response;
    EXPECT_TRUE(stub_->LogSettings(&context, {}, &response).ok());
    EXPECT_EQ(response.settings().at("log_format").string_param(), "default");
  }
}

// grpc.health.v1.Health/Check with raw messages: an empty request asks for the
// whole server, and the bytes 08 01 say SERVING.
TEST_F(GrpcFrontEndTest, AnswersHealthChecks) {
  grpc::GenericStub stub(channel_);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const grpc::ByteBuffer request;
  grpc::ByteBuffer response;
  grpc::Status status;
  auto call =
      stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check",
                            grpc::ByteBuffer(std::vector<grpc::Slice>{{}}.data(), 1), &queue);
  call->StartCall();
  call->Finish(&response, &status, nullptr);
  void* tag;
  bool ok;
  ASSERT_TRUE(queue.Next(&tag, &ok));
  ASSERT_TRUE(status.ok()) << status.error_message();
  grpc::Slice slice;
  ASSERT_TRUE(response.DumpToSingleSlice(&slice).ok());
  EXPECT_EQ(std::string(slice.begin(), slice.end()), "\x08\x01");
}

// grpc.reflection.v1alpha, which tools ask for the services: 3a 00 is list_services "".
TEST_F(GrpcFrontEndTest, ListsItsServicesByReflection) {
  grpc::GenericStub stub(channel_);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  void* tag;
  bool ok = false;
  const auto next = [&] { return queue.Next(&tag, &ok) && ok; };
  auto call = stub.PrepareCall(
      &context, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  call->StartCall(nullptr);
  ASSERT_TRUE(next());
  const grpc::Slice list("\x3a\x00", 2);
  call->Write(grpc::ByteBuffer(&list, 1), nullptr);
  ASSERT_TRUE(next());
  grpc::ByteBuffer reply;
  call->Read(&reply, nullptr);
  ASSERT_TRUE(next());
  grpc::Slice slice;
  ASSERT_TRUE(reply.DumpToSingleSlice(&slice).ok());
  EXPECT_THAT(std::string(slice.begin(), slice.end()), HasSubstr("inference.GRPCInferenceService"));
  context.TryCancel();
  grpc::Status status;
  call->Finish(&status, nullptr);
  queue.Next(&tag, &ok);
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
}

TEST_F(GrpcFrontEndTest, StopsWithoutPatienceByCancelling) {
  engine_->hold = true;
  grpc::ClientContext context;
  grpc::Status status;
  std::thread call([&] {
    ModelInferResponse response;
    status = stub_->ModelInfer(&context, good(), &response);
  });
  engine_->wait_held(1);
  server_->stop(Duration());
  call.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
}

TEST_F(GrpcFrontEndTest, AStreamWithoutRequestsDoesNotHoldAStop) {
  engine_->hold = true;
  grpc::ClientContext idle_context, busy_context;
  auto idle = stub_->ModelStreamInfer(&idle_context), busy = stub_->ModelStreamInfer(&busy_context);
  ModelStreamInferResponse response;
  idle->Write(good());
  engine_->wait_held(1);
  engine_->release();
  EXPECT_TRUE(idle->Read(&response));
  busy->Write(good());
  engine_->wait_held(1);
  std::thread stop([this] { server_->stop(Duration::seconds(3600)); });
  EXPECT_FALSE(idle->Read(&response));
  EXPECT_EQ(idle->Finish().error_message(), "the server stops");
  engine_->release();
  EXPECT_TRUE(busy->Read(&response));
  EXPECT_FALSE(busy->Read(&response));
  EXPECT_EQ(busy->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  stop.join();
}

// Neither does one that watches the server's health.
TEST_F(GrpcFrontEndTest, ACallWhoseMessageNeverComesDoesNotHoldAStop) {
  grpc::GenericStub stub(channel_);
  grpc::CompletionQueue queue;
  void* tag;
  bool ok = false;
  const auto next = [&] { return queue.Next(&tag, &ok) && ok; };
  grpc::ClientContext half_context, watch_context;
  const auto half =
      stub.PrepareCall(&half_context, "/inference.GRPCInferenceService/ModelInfer", &queue);
  half->StartCall(nullptr);
  ASSERT_TRUE(next());
  const auto watch = stub.PrepareCall(&watch_context, "/grpc.health.v1.Health/Watch", &queue);
  watch->StartCall(nullptr);
  ASSERT_TRUE(next());
  const grpc::Slice of_all("");
  watch->WriteLast(grpc::ByteBuffer(&of_all, 1), {}, nullptr);
  ASSERT_TRUE(next());
  grpc::ByteBuffer health;
  watch->Read(&health, nullptr);
  ASSERT_TRUE(next());
  engine_->hold = true;
  grpc::Status busy;
  ModelInferResponse response;
  std::thread call([&] { busy = infer(good(), response); });
  engine_->wait_held(1);  // the heads of the calls before it have come too
  std::thread stop([this] { server_->stop(Duration::seconds(3600)); });
  grpc::Status end;
  half->Finish(&end, nullptr);
  engine_->release();
  call.join();
  EXPECT_TRUE(busy.ok()) << busy.error_message();
  stop.join();
  EXPECT_TRUE(next());
  EXPECT_EQ(end.error_code(), grpc::StatusCode::UNAVAILABLE) << end.error_message();
  watch->Read(&health, nullptr);
  EXPECT_TRUE(next());  // that it is not ready any more
  watch->Finish(&end, nullptr);
  EXPECT_TRUE(next());
  EXPECT_EQ(end.error_code(), grpc::StatusCode::UNAVAILABLE) << end.error_message();
}

TEST_F(GrpcFrontEndTest, NewCallsWhileItStopsAreUnavailable) {
  engine_->hold = true;
  grpc::Status busy;
  ModelInferResponse response;
  std::thread call([&] { busy = infer(good(), response); });
  engine_->wait_held(1);
  std::thread stop([this] { server_->stop(Duration::seconds(3600)); });
  // Until it stops they are held, as the first is.
  ModelInferResponse ignored;
  grpc::Status later;
  do {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(20));
    later = stub_->ModelInfer(&context, good(), &ignored);
  } while (later.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(later.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(later.error_message(), "the server stops");
  engine_->release();
  call.join();
  EXPECT_TRUE(busy.ok()) << busy.error_message();
  stop.join();
}

TEST(GrpcStatus, TooManyItemsAreTheClientsFault) {
  const grpc::Status status = grpc_status(absl::OutOfRangeError("9 items"));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), "9 items");
}

}  // namespace
}  // namespace fermata::serve
