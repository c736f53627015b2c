#include "load/http_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status.h"
#include "load/json_tensor.h"

namespace fermata::load {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

TEST(HttpParser, PutsResponsesTogetherFromAnyPieces) {
  const std::string text =
      "HTTP/1.1 200 OK\r\nX-Empty:\r\nInference-Header-Content-Length: 2\r\n"
      "Content-Length: 4\r\n\r\n{}ab";
  for (size_t cut = 0; cut < text.size(); ++cut) {
    HttpResponseParser parser;
    if (cut > 0) {
      EXPECT_EQ(parser.feed(text.substr(0, cut)).value(), false) << cut;
    }
    EXPECT_EQ(parser.feed(text.substr(cut)).value(), true) << cut;
    const HttpResponse response = parser.take();
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.json_bytes, 2);
    EXPECT_EQ(response.body, "{}ab");
    EXPECT_TRUE(response.keep_alive);
  }
}

TEST(HttpParser, IsReadyForTheNextResponse) {
  HttpResponseParser parser;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(parser.feed("HTTP/1.1 504 Late\r\nContent-Length: 0\r\n\r\n").value(), true);
    EXPECT_EQ(parser.take().status, 504);
  }
}

TEST(HttpParser, ReadsChunksAndUnmeasuredBodies) {
  HttpResponseParser parser;
  EXPECT_TRUE(
      parser
          .feed("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n"
                "0\r\n\r\n")
          .value());
  EXPECT_EQ(parser.take().body, "abcd");
  EXPECT_FALSE(parser.feed("HTTP/1.1 200 OK\r\n\r\nabc").value());
  EXPECT_TRUE(parser.feed_end());
  EXPECT_EQ(parser.take().body, "abc");
}

TEST(HttpParser, ChunksMayComeByteByByte) {
  const std::string head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const std::string chunks : {"0\r\n\r\n", "3\r\nabc\r\n0\r\nA: 1\r\n\r\n"}) {
    HttpResponseParser parser;
    bool is_whole = false;
    for (const char byte : head + chunks) {
      EXPECT_FALSE(is_whole);
      is_whole = parser.feed({&byte, 1}).value();
    }
    EXPECT_TRUE(is_whole) << chunks;
  }
}

TEST(HttpParser, AConnectionThatEndsWithNothingSaidIsNoResponse) {
  HttpResponseParser parser;
  EXPECT_FALSE(parser.feed("").value());
  EXPECT_FALSE(parser.feed_end());
}

TEST(HttpParser, RefusesWhatIsNoResponse) {
  EXPECT_FALSE(HttpResponseParser().feed("SSH-2.0-OpenSSH\r\n").ok());
  EXPECT_FALSE(HttpResponseParser()
                   .feed("HTTP/1.1 200 OK\r\nInference-Header-Content-Length: x\r\n\r\n")
                   .ok());
  EXPECT_THAT(
      message(
          HttpResponseParser().feed("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nmore").status()),
      HasSubstr("4 bytes beyond its response"));
}

TEST(HttpParser, TakesNoMemoryForALengthThatNoResponseHas) {
  EXPECT_THAT(message(HttpResponseParser()
                          .feed("HTTP/1.1 200 OK\r\nContent-Length: 8854481732025333992\r\n\r\nx")
                          .status()),
              HasSubstr("body limit exceeded"));
}

Question question() {
  Question q;
  q.service = "m";
  q.inputs.push_back({"x", DataType::kUint8, {1, 3}, own("abc")});
  return q;
}

TEST(HttpCodec, RequestsCarryTensorsInBinary) {
  Question q = question();
  q.version = "2";
  q.timeout = Duration::millis(25);
  q.explain = true;
  const std::string request = encode_infer("host:1", q);
  EXPECT_THAT(request, StartsWith("POST /v2/models/m/versions/2/infer HTTP/1.1\r\nHost: host:1"));
  EXPECT_THAT(request, HasSubstr(R"("timeout":25000)"));
  EXPECT_THAT(request, HasSubstr(R"("explain":true)"));
  EXPECT_THAT(request, HasSubstr(R"("binary_data_size":3)"));
  EXPECT_TRUE(request.ends_with("}abc"));
}

TEST(HttpCodec, ReadsBinaryAndJsonOutputs) {
  HttpResponse response{.status = 200};
  response.body =
      R"({"outputs":[{"name":"a","datatype":"UINT8","shape":[2],"parameters":{"binary_data_size":2}},)"
      R"({"name":"b","datatype":"INT8","shape":[1],"data":[7],"more":1}],)"
      R"("parameters":{"batch_size":3,"queueing_us":10,"run_us":2.5}})";
  response.json_bytes = response.body.size();
  response.body += "xy";
  const Answer answer = decode_infer(response, true, true);
  ASSERT_TRUE(answer.status.ok()) << message(answer.status);
  ASSERT_EQ(answer.outputs.size(), 2);
  EXPECT_THAT(answer.outputs[0].data.bytes, ElementsAre(std::byte{'x'}, std::byte{'y'}));
  EXPECT_THAT(answer.outputs[1].data.bytes, ElementsAre(std::byte{7}));
  EXPECT_EQ(answer.why->batch_items, 3);
  EXPECT_EQ(answer.why->queueing, Duration::micros(10));
  EXPECT_EQ(answer.why->run, Duration::nanos(2500));
}

TEST(HttpCodec, RepliesThatLieAreInternal) {
  HttpResponse response{.status = 200, .body = "{}"};
  EXPECT_EQ(decode_infer(response, true, false).status.code(), absl::StatusCode::kInternal);
  response.json_bytes = 3;
  EXPECT_THAT(message(decode_infer(response, true, false).status), HasSubstr("3 bytes"));
  response = {.status = 200, .body = "nonsense"};
  EXPECT_THAT(message(decode_infer(response, true, false).status), HasSubstr("not JSON"));
  response.body =
      R"({"outputs":[{"name":"a","datatype":"UINT8","shape":[9],"parameters":{"binary_data_size":9}}]})";
  response.json_bytes = response.body.size();
  EXPECT_THAT(message(decode_infer(response, true, false).status),
              HasSubstr("said to have 9 bytes, 0 are left"));
}

TEST(HttpCodec, StatusesAreTheProtocols) {
  const auto code = [](int status) {
    return decode_infer({.status = status, .body = R"({"error":"why"})"}, true, true).status.code();
  };
  EXPECT_EQ(code(504), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(code(429), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(code(404), absl::StatusCode::kNotFound);
  EXPECT_EQ(code(400), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(418), absl::StatusCode::kUnknown);
  EXPECT_EQ(message(decode_infer({.status = 500, .body = "<html>"}, true, true).status),
            "HTTP status 500");
}

TEST(HttpCodec, ReadsMetadata) {
  const auto infos = decode_metadata(
      {.status = 200,
       .body = R"({"name":"m","inputs":[{"name":"x","datatype":"FP32","shape":[-1,64]}]})"});
  ASSERT_TRUE(infos.ok());
  EXPECT_EQ((*infos)[0].name, "x");
  EXPECT_THAT((*infos)[0].shape, ElementsAre(-1, 64));
  EXPECT_EQ(decode_metadata({.status = 404, .body = R"({"error":"no such model"})"}).status(),
            absl::NotFoundError("no such model"));
}

}  // namespace
}  // namespace fermata::load
