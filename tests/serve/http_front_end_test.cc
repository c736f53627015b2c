#include "serve/http/http_front_end.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "serve/http_client.h"
#include "serve/net/compression.h"
#include "serve/scripted_engine.h"
#include "serve/server.h"

namespace fermata::serve {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kInfer[] = "/v2/models/echo/infer";
constexpr char kGood[] =
    R"({"id":"7","inputs":[{"name":"IN","shape":[1,4],"datatype":"FP32","data":[[1,2.5,-3,4]]}]})";

class HttpFrontEndTest : public ::testing::Test {
 protected:
  HttpFrontEndTest() {
    auto engine = std::make_unique<ScriptedEngine>();
    engine_ = engine.get();
    ListenOptions options;
    options.http = options.grpc = options.metrics = 0;
    options.max_request_mb = 1;
    server_ = *Server::start(options, std::move(engine));
    client_ = std::make_unique<HttpClient>(server_->ports().http);
  }
  HttpReceived infer(std::string_view body, std::string_view headers = {}) {
    return client_->post(kInfer, body, headers);
  }
  void expect_alive() { EXPECT_EQ(infer(kGood).status, 200); }

  ScriptedEngine* engine_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<HttpClient> client_;
};

TEST_F(HttpFrontEndTest, AnswersJsonWithJson) {
  const auto reply = infer(kGood);
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, R"({"model_name":"echo","model_version":"1","id":"7","outputs":[)"
                        R"({"name":"OUT","datatype":"FP32","shape":[1,4],"data":[1,2.5,-3,4]}]})");
}

TEST_F(HttpFrontEndTest, AnswersBinaryWithBinary) {
  const float values[4] = {1, 2, 3, 4};
  std::string body =
      R"({"inputs":[{"name":"IN","shape":[1,4],"datatype":"FP32","parameters":{"binary_data_size":16}}],)"
      R"("parameters":{"binary_data_output":true}})";
  const std::string header =
      "Inference-Header-Content-Length: " + std::to_string(body.size()) + "\r\n";
  body.append(reinterpret_cast<const char*>(values), sizeof(values));
  auto reply = infer(body, header);
  ASSERT_EQ(reply.status, 200) << reply.body;
  const size_t json = std::stoul(reply.headers["inference-header-content-length"]);
  ASSERT_EQ(reply.body.size(), json + 16);
  EXPECT_EQ(std::memcmp(reply.body.data() + json, values, 16), 0);
  EXPECT_THAT(reply.body, HasSubstr("\"binary_data_size\":16"));
}

TEST_F(HttpFrontEndTest, AnswersARawRequest) {
  const auto reply = infer(std::string(32, '\0'), "Inference-Header-Content-Length: 0\r\n");
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(engine_->last().inputs[0].shape, (Shape{2, 4}));
}

TEST_F(HttpFrontEndTest, CompressesBothWays) {
  for (const auto* coding : {"gzip", "deflate"}) {
    const Encoding encoding = *parse_content_encoding(coding);
    std::string zeros;
    for (int i = 0; i < 4000; ++i) zeros += i == 0 ? "0" : ",0";
    const std::string text =
        R"({"inputs":[{"name":"IN","shape":[1000,4],"datatype":"FP32","data":[)" + zeros + "]}]}";
    auto reply = infer(compress({text}, encoding), fmt::format("Content-Encoding: {0}\r\n"
                                                               "Accept-Encoding: {0}\r\n",
                                                               coding));
    ASSERT_EQ(reply.status, 200) << reply.body;
    EXPECT_EQ(reply.headers["content-encoding"], coding);
    EXPECT_THAT(*decompress(reply.body, encoding, 1 << 20), HasSubstr("\"data\":[0,0"));
  }
}

TEST_F(HttpFrontEndTest, ExplainsWhenAsked) {
  std::string body(kGood);
  body.insert(body.size() - 1, R"(,"parameters":{"explain":true,"timeout":20000})");
  const auto parsed = nlohmann::json::parse(infer(body).body);
  EXPECT_EQ(parsed["parameters"]["variant"], "echo");
  EXPECT_EQ(parsed["parameters"]["queueing_us"], 30);
  EXPECT_EQ(parsed["parameters"]["remaining_us"], 10000);
  EXPECT_EQ(engine_->last().timeout, Duration::millis(20));
}

TEST_F(HttpFrontEndTest, NamesUnknownParametersWhenItExplains) {
  std::string body(kGood);
  std::string odd = "x";
  for (int i = 0; i < 40; ++i) odd += "\u00e4";  // two bytes each: the 64th is in one
  body.insert(body.size() - 1, R"(,"parameters":{"explain":true,"sequence_id":0,"timeot":20000,")" +
                                   odd + R"(":1})");
  const auto parsed = nlohmann::json::parse(infer(body).body);
  EXPECT_EQ(parsed["parameters"]["unknown_parameters"],
            "timeot (did you mean timeout?), " + odd.substr(0, 63));
}

struct BadCase {
  const char* name;
  std::string body, headers;
  int status;
  const char* says;
};

TEST_F(HttpFrontEndTest, RefusesWhatIsWrongAndGoesOn) {
  const auto input = [](const char* rest) {
    return fmt::format(R"({{"inputs":[{{"name":"IN",{}}}]}})", rest);
  };
  const std::string four = R"("shape":[1,4],"datatype":"FP32",)";
  const BadCase cases[] = {
      {"empty", "", "", 400, "not JSON"},
      {"cut", R"({"inputs":[)", "", 400, "not JSON"},
      {"list", "[]", "", 400, "the request is a list, expected an object"},
      {"no inputs", "{}", "", 400, "has no inputs"},
      {"inputs", R"({"inputs":3})", "", 400, "inputs is a number, expected a list"},
      {"no name", R"({"inputs":[{}]})", "", 400, "an input has no name"},
      {"no shape", input(R"("datatype":"FP32","data":[])"), "", 400, "input IN has no shape"},
      {"no datatype", input(R"("shape":[1],"data":[1])"), "", 400, "input IN has no datatype"},
      {"datatype", input(R"("shape":[1],"datatype":"FP8","data":[1])"), "", 400, "FP8"},
      {"no data", input(R"("shape":[1],"datatype":"FP32")"), "", 400, "in 0 places"},
      {"shape", input(R"("shape":["1"],"datatype":"FP32","data":[1])"), "", 400, "a dimension"},
      {"count", input((four + R"("data":[1,2,3])").c_str()), "", 400, "3 elements"},
      {"negative", input(R"("shape":[-1,4],"datatype":"FP32","data":[1])"), "", 400, "has -1"},
      {"huge", input(R"("shape":[4611686018427387904,4],"datatype":"FP32","data":[1])"), "", 400,
       "64 bits"},
      {"element", input((four + R"("data":[1,2,"x",3])").c_str()), "", 400, "data[2]"},
      {"too big", input((four + R"("data":[1,2,3,1e39])").c_str()), "", 400, "data[3]"},
      {"half", input(R"("shape":[1],"datatype":"FP16","data":[1])"), "", 400, "no JSON form"},
      {"lying size", input((four + R"("parameters":{"binary_data_size":16})").c_str()), "", 400,
       "binary_data_size is 16, but 0 bytes"},
      {"huge size",
       input((four + R"("parameters":{"binary_data_size":18446744073709551615})").c_str()), "", 400,
       "18446744073709551615"},
      {"region",
       input((four + R"("parameters":{"shared_memory_region":"r","shared_memory_byte_size":16})")
                 .c_str()),
       "", 400, "region r is not registered"},
      {"header length", "{}", "Inference-Header-Content-Length: 3\r\n", 400, "but the body has 2"},
      {"header text", "{}", "Inference-Header-Content-Length: -1\r\n", 400, "is \"-1\""},
      {"left over", std::string(kGood) + "1234",
       fmt::format("Inference-Header-Content-Length: {}\r\n", sizeof(kGood) - 1), 400,
       "4 bytes after its last tensor"},
      {"raw size", "12345", "Inference-Header-Content-Length: 0\r\n", 400, "5 bytes"},
      {"not gzip", "{}", "Content-Encoding: gzip\r\n", 400, "not whole gzip"},
      {"coding", "{}", "Content-Encoding: br\r\n", 501, "expected gzip"},
      {"timeout", R"({"inputs":[],"parameters":{"timeout":-1}})", "", 400, "timeout is -1"},
      {"sequence", R"({"inputs":[],"parameters":{"sequence_id":5}})", "", 501, "sequence_id"},
      {"inputs twice", R"({"inputs":[],"inputs":[]})", "", 400, "the request has inputs twice"},
      {"outputs twice", R"({"inputs":[],"outputs":[],"outputs":[]})", "", 400, "outputs twice"},
      {"shape twice", input(R"("shape":[1],"shape":[2])"), "", 400, "an input has shape twice"},
      {"output twice", R"({"inputs":[],"outputs":[{"name":"O"},{"name":"O"}]})", "", 400, "twice"},
  };
  for (const BadCase& bad : cases) {
    SCOPED_TRACE(bad.name);
    const auto reply = infer(bad.body, bad.headers);
    EXPECT_EQ(reply.status, bad.status) << reply.body;
    const auto parsed = nlohmann::json::parse(reply.body, nullptr, false);
    ASSERT_TRUE(parsed.contains("error")) << reply.body;
    EXPECT_THAT(parsed["error"].get<std::string>(), HasSubstr(bad.says));
    expect_alive();
  }
}

TEST_F(HttpFrontEndTest, AnswersABodyThatUnpacksTooLargeWithAnError) {
  const std::string bomb = compress({std::string(2 << 20, ' ')}, Encoding::kGzip);
  const auto reply = infer(bomb, "Content-Encoding: gzip\r\n");
  EXPECT_EQ(reply.status, 400);
  EXPECT_THAT(reply.body, HasSubstr("larger than 1048576 bytes"));
  expect_alive();
}

TEST_F(HttpFrontEndTest, MapsStatuses) {
  const std::pair<absl::StatusCode, int> cases[] = {
      {absl::StatusCode::kInvalidArgument, 400},   {absl::StatusCode::kNotFound, 404},
      {absl::StatusCode::kResourceExhausted, 429}, {absl::StatusCode::kInternal, 500},
      {absl::StatusCode::kUnimplemented, 501},     {absl::StatusCode::kUnavailable, 503},
      {absl::StatusCode::kDeadlineExceeded, 504},
  };
  for (const auto& [code, status] : cases) {
    engine_->fail = absl::Status(code, "because \"so\"");
    const auto reply = infer(kGood);
    EXPECT_EQ(reply.status, status);
    const char* first = code == absl::StatusCode::kDeadlineExceeded ? "Deadline Exceeded: " : "";
    EXPECT_EQ(reply.body, fmt::format(R"({{"error":"{}because \"so\""}})", first));
  }
}

TEST_F(HttpFrontEndTest, CancelsWhatAClosedConnectionLeaves) {
  engine_->hold = true;
  HttpClient leaving(server_->ports().http);
  leaving.send(post_text(kInfer, kGood));
  engine_->wait_held(1);
  leaving.close();
  engine_->wait_cancelled(1);
  engine_->hold = false;
  expect_alive();
}

// A client of one request, which the server reads nothing more of.
TEST_F(HttpFrontEndTest, CancelsWhatAClientThatWouldCloseLeaves) {
  engine_->hold = true;
  HttpClient leaving(server_->ports().http);
  leaving.send(post_text(kInfer, kGood, "Connection: close\r\n"));
  engine_->wait_held(1);
  leaving.close();
  engine_->wait_cancelled(1);
  HttpClient waiting(server_->ports().http);
  waiting.send(post_text(kInfer, kGood, "Connection: close\r\n"));
  engine_->wait_held(1);
  waiting.half_close();
  HttpClient other(server_->ports().http);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(other.get("/v2/health/live").status, 200);
  engine_->release();
  EXPECT_EQ(waiting.receive().status, 200);
  EXPECT_EQ(waiting.receive().status, 0);
}

TEST_F(HttpFrontEndTest, RepeatsLittleOfWhatAClientSent) {
  const auto reply = infer(R"({"inputs":[{"name":")" + std::string(500'000, 'x') + R"("}]})");
  EXPECT_EQ(reply.status, 400);
  EXPECT_THAT(reply.body, HasSubstr("x ... x"));
  EXPECT_THAT(reply.body, HasSubstr("has no shape"));
  EXPECT_LT(reply.body.size(), 4096u);
}

TEST_F(HttpFrontEndTest, KeepsPipelinedRepliesInOrder) {
  client_->send(post_text(kInfer, kGood) + "GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(client_->receive().body, HasSubstr("echo"));
  EXPECT_EQ(client_->receive().body, R"({"live":true})");
}

TEST_F(HttpFrontEndTest, AnswersEveryOperation) {
  const std::pair<const char*, const char*> gets[] = {
      {"/v2", R"("name":"fermata")"},
      {"/v2/health/live", R"({"live":true})"},
      {"/v2/health/ready", R"({"ready":true})"},
      {"/v2/models/echo", R"("shape":[-1,4])"},
      {"/v2/models/echo/versions/1", R"("versions":["1"])"},
      {"/v2/models/echo/ready", R"("ready":true)"},
      {"/v2/models/echo/config", R"("max_batch_size":8)"},
      {"/v2/models/stats", R"("inference_count":7)"},
      {"/v2/models/echo/stats", R"("cache_miss":{"count":0,"ns":0})"},
      {"/v2/systemsharedmemory/status", "[]"},
      {"/v2/cudasharedmemory/status", "[]"},
  };
  for (const auto& [path, says] : gets) {
    const auto reply = client_->get(path);
    EXPECT_EQ(reply.status, 200) << path;
    EXPECT_THAT(reply.body, HasSubstr(says));
  }
  EXPECT_EQ(client_->post("/v2/repository/index", "").body,
            R"([{"name":"broken","version":"1","state":"UNAVAILABLE","reason":"not a model"},)"
            R"({"name":"echo","version":"1","state":"READY","reason":""}])");
  EXPECT_THAT(client_->post("/v2/repository/index", R"({"ready":true})").body,
              Not(HasSubstr("broken")));
  EXPECT_EQ(client_->post("/v2/repository/models/echo/load", "{}").status, 200);
  EXPECT_EQ(client_->post("/v2/repository/models/nobody/unload", "").status, 200);
  const auto failed = client_->post("/v2/repository/models/nobody/load", "");
  EXPECT_EQ(failed.status, 404);
  EXPECT_THAT(failed.body, HasSubstr("failed to load 'nobody'"));
}

// Bodies of the operations that once took the server down or kept it for seconds.
TEST_F(HttpFrontEndTest, RefusesHostileBodiesOfOperations) {
  constexpr char kRegister[] = "/v2/systemsharedmemory/region/r/register";
  constexpr char kIndex[] = "/v2/repository/index";
  constexpr char kLoad[] = "/v2/repository/models/echo/load";
  const std::string deep = R"({"key":"k","byte_size":)" + std::string(100'000, '[');
  std::string wide = "{";
  for (int i = 0; i < 60'000; ++i) wide += fmt::format("\"k{}\":0,", i);
  wide += R"("ready":3})";
  const std::tuple<const char*, std::string, const char*> cases[] = {
      {kRegister, deep, "nested too deep"},
      {kRegister, R"({"key":"k"})", "$.byte_size: missing"},
      {kRegister, R"({"byte_size":8})", "$.key: missing"},
      {kRegister, R"({"key":"k","byte_size":[1]})", "$.byte_size: a list of 1"},
      {kRegister, R"({"key":"k","byte_size":8,"offset":-1})", "$.offset: -1"},
      {kIndex, wide, "$.ready: 3, expected true or false"},
      {kIndex, R"({"ready":true,"ready":true})", "$.ready: given twice"},
      {kIndex, "[]", "$: a list of 0, expected a map"},
      {kIndex, "{", "not JSON"},
      {kLoad, R"({"parameters":[]})", "$.parameters: a list of 0, expected a map"},
      {kLoad, R"({"parameters":{"config":{}}})", "$.parameters.config: a map, expected text"},
      {"/v2/repository/models/echo/unload", deep, "nested too deep"},
  };
  for (const auto& [path, body, says] : cases) {
    const auto reply = client_->post(path, body);
    EXPECT_EQ(reply.status, 400) << says;
    EXPECT_THAT(Json::parse(reply.body)["error"].get<std::string>(), HasSubstr(says));
  }
  EXPECT_EQ(client_->post(kIndex, R"({"ready":null,"more":[[]]})").status, 200);
  EXPECT_EQ(client_->post(kLoad, R"({"parameters":null})").status, 200);
}

TEST_F(HttpFrontEndTest, SaysWhatItDoesNotServe) {
  EXPECT_EQ(client_->get("/v3").status, 404);
  EXPECT_EQ(client_->get("/v2/models/nobody").status, 404);
  EXPECT_EQ(client_->get("/v2/models/nobody/ready").status, 503);
  EXPECT_EQ(client_->get(kInfer).status, 405);
  EXPECT_EQ(client_->post("/v2/models/echo/generate", "{}").status, 501);
  EXPECT_EQ(client_->post("/v2/cudasharedmemory/region/r/register", "{}").status, 501);
  EXPECT_THAT(client_->get("/v3").body, HasSubstr("\"error\""));
}

// Triton's clients send them by habit.
TEST_F(HttpFrontEndTest, TakesTraceAndLogSettingsAndSaysWhatHolds) {
  for (const char* path : {"/v2/trace/setting", "/v2/models/echo/trace/setting"}) {
    const auto asked = client_->post(path, R"({"trace_level":["TIMESTAMPS"],"trace_rate":null})");
    EXPECT_EQ(asked.status, 200);
    EXPECT_EQ(Json::parse(asked.body)["trace_level"].dump(), R"(["OFF"])");
    EXPECT_EQ(nlohmann::json::parse(client_->get(path).body), nlohmann::json::parse(asked.body));
  }
  EXPECT_EQ(client_->get("/v2/models/nobody/trace/setting").status, 404);
  const auto log = client_->post("/v2/logging", R"({"log_verbose_level":1,"log_info":false})");
  EXPECT_EQ(log.status, 200);
  const Json body = Json::parse(log.body);
  EXPECT_TRUE(body["log_info"].is_boolean());
  EXPECT_EQ(body["log_format"], "default");
  EXPECT_EQ(nlohmann::json::parse(client_->get("/v2/logging").body), nlohmann::json(body));
  EXPECT_EQ(client_->post("/v2/logging", "[]").status, 400);
}

TEST_F(HttpFrontEndTest, CompressesMetrics) {
  HttpClient metrics(server_->ports().metrics);
  const std::string plain = metrics.get("/metrics").body;
  const auto packed = metrics.get("/metrics", "Accept-Encoding: gzip\r\n");
  EXPECT_EQ(packed.headers.at("content-encoding"), "gzip");
  EXPECT_LT(packed.body.size(), plain.size() / 2);
  const auto text = decompress(packed.body, Encoding::kGzip, 1 << 20);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, HasSubstr("fermata_worker_busy_seconds_total"));
  const auto small = client_->get("/v2/health/live", "Accept-Encoding: gzip\r\n");
  EXPECT_EQ(small.body, R"({"live":true})");
}

TEST_F(HttpFrontEndTest, HistogramsWithoutAnObservationAreAbsent) {
  HttpClient metrics(server_->ports().metrics);
  EXPECT_THAT(metrics.get("/metrics").body,
              AllOf(HasSubstr("fermata_slack_seconds_bucket"),
                    Not(HasSubstr("fermata_queueing_seconds_bucket"))));
}

TEST_F(HttpFrontEndTest, ShowsWhereModelsLiveAndWhy) {
  const auto reply = client_->get("/v2/fermata/placement");
  EXPECT_EQ(reply.status, 200);
  const Json body = Json::parse(reply.body);
  EXPECT_EQ(body["subclusters"].dump(),
            R"([{"workers":[0],"memory_mb":64.0,"used_mb":40.0,"models":["echo"]},)"
            R"({"workers":[1],"memory_mb":64.0,"used_mb":0.0,"models":[]}])");
  const Json& decision = body["decisions"].at(0);
  EXPECT_EQ(decision["number"], 7);
  EXPECT_EQ(decision["problem"]["models"][0]["rate_rps"], 12.5);
  EXPECT_EQ(decision["answer"]["assignment"].dump(), R"({"echo":0})");
  EXPECT_EQ(decision["changes"].dump(),
            R"([{"model":"echo","from":1,"to":0,"result":"postponed","reason":"no room"}])");
  EXPECT_EQ(client_->post("/v2/fermata/placement", "").status, 405);
}

TEST_F(HttpFrontEndTest, ShowsMetrics) {
  HttpClient client(server_->ports().metrics);
  const auto reply = client.get("/metrics");
  for (const char* line :
       {"nv_inference_request_success{model=\"echo\",version=\"1\"} 5",
        "nv_inference_request_failure{model=\"echo\",version=\"1\",reason=\"CANCELED\"} 4",
        "fermata_requests_total{service=\"echo\",version=\"1\",outcome=\"on_time\"} 3",
        "fermata_slack_seconds_bucket{service=\"echo\",version=\"1\",le=\"+Inf\"} 5",
        "fermata_batch_size_bucket{service=\"echo\",version=\"1\",le=\"4\"} 2",
        "fermata_batch_size_sum{service=\"echo\",version=\"1\"} 6",
        "fermata_worker_busy_seconds_total{worker=\"0\",type=\"default\"} 0.03",
        "fermata_model_subcluster{model=\"echo\"} 0",
        "fermata_subcluster_workers{subcluster=\"1\"} 1",
        "fermata_subcluster_memory_used_bytes{subcluster=\"0\"} 41943040",
        "fermata_placement_changes_total{result=\"move\"} 2", "fermata_placement_epochs_total 3",
        "fermata_placement_epoch_duration_seconds 0.25",
        "fermata_placement_memory_imbalance_ratio 2", "fermata_autoscale_workers_to_add 3",
        "fermata_autoscale_workers_to_give_back 0", "fermata_autoscale_bad_rate 0.5",
        "fermata_autoscale_idle_ratio 0.125",
        "fermata_front_end_requests_total{protocol=\"http\"} 0"}) {
    EXPECT_THAT(reply.body, HasSubstr(line));
  }
  EXPECT_EQ(client.get("/").status, 404);
}

}  // namespace
}  // namespace fermata::serve
