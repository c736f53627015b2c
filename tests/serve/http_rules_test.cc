// What HTTP itself asks of a server, and what it must refuse: each case was once served wrongly.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <zlib.h>

#include <iterator>
#include <nlohmann/json.hpp>

#include "base/document.h"
#include "serve/http/http_parser.h"
#include "serve/http/http_routes.h"
#include "serve/http/page_origin.h"
#include "serve/http_client.h"
#include "serve/scripted_engine.h"
#include "serve/server.h"

#ifndef __has_feature  // of clang
#define __has_feature(x) 0
#endif

namespace fermata::serve {
namespace {

using ::testing::HasSubstr;

constexpr char kEcho[] = "/v2/models/echo/infer";
constexpr char kFour[] =
    R"({"inputs":[{"name":"IN","shape":[1,4],"datatype":"FP32","data":[1,2,3,4]}]})";

class HttpRulesTest : public ::testing::Test {
 protected:
  HttpRulesTest() {
    auto engine = std::make_unique<ScriptedEngine>();
    engine_ = engine.get();
    ListenOptions options;
    options.http = options.grpc = options.metrics = 0;
    options.max_request_mb = 1;
    options.max_connections = 8;
    server_ = *Server::start(options, std::move(engine));
    client_ = std::make_unique<HttpClient>(server_->ports().http);
  }
  void expect_alive() {
    HttpClient fresh(server_->ports().http);
    EXPECT_EQ(fresh.post(kEcho, kFour).status, 200);
  }

  ScriptedEngine* engine_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<HttpClient> client_;
};

TEST_F(HttpRulesTest, LetsOnlyItsOwnPagesMakeAdministrativeCalls) {
  struct Case {
    const char *host, *origin;
    int status;
  };
  for (const Case& c :
       {Case{"localhost:8000", "http://localhost:8000", 200},
        Case{"127.0.0.1:8000", "http://127.0.0.1:8000", 200},
        Case{"[::1]:8000", "http://[::1]:8000", 200},
        Case{"localhost:8000", "http://stranger.example", 403}, Case{"localhost:8000", "null", 403},
        Case{"stranger.example", "http://stranger.example", 403}}) {
    client_->send(
        fmt::format("POST /v2/systemsharedmemory/unregister HTTP/1.1\r\nHost: {}\r\nOrigin: {}\r\n"
                    "Content-Length: 2\r\n\r\n{{}}",
                    c.host, c.origin));
    const auto reply = client_->receive();
    EXPECT_EQ(reply.status, c.status) << c.host << ", " << c.origin << ": " << reply.body;
    EXPECT_EQ(reply.body.find("listen.origins") != std::string::npos, c.status == 403);
  }
  EXPECT_TRUE(check_page("http://proxy.example", "proxy.example", {}).ok());
  // A page that reads from what it takes for its own server names no origin.
  EXPECT_FALSE(check_page("", "stranger.example", {.loopback = true}).ok());
  for (const char* host : {"localhost:8000", "127.0.0.1", "[::1]:8000", ""}) {
    EXPECT_TRUE(check_page("", host, {.loopback = true}).ok()) << host;
  }
  EXPECT_TRUE(check_page("", "proxy.example", {}).ok());
}

struct Refused {
  std::string sent;
  int status;
  const char* says;
};

TEST(HttpParser, AHeadHasAsManyLinesHoweverItIsCut) {
  for (const size_t folded : {HttpParser::kMostFields - 1, HttpParser::kMostFields}) {
    std::string text = "GET /v2 HTTP/1.1\r\nHost: x\r\nA: 1\r\n";
    for (size_t i = 0; i < folded; ++i) text += " 2\r\n";
    text += "\r\n";
    for (size_t size = text.size() - 5; size <= text.size(); ++size) {
      HttpParser parser(1000);
      size_t used = 0;
      auto step = parser.feed(std::string_view(text).substr(0, size), used);
      if (step == HttpParser::Step::kMore) step = parser.feed(text.substr(used), used);
      const bool fits = folded < HttpParser::kMostFields;
      EXPECT_EQ(step, fits ? HttpParser::Step::kWhole : HttpParser::Step::kBad)
          << size << " " << parser.refusal().says;
    }
  }
}

// The parser below it lets each piece be as long as a whole head, where of the last only a byte is
// left that it cannot go on with.
TEST(HttpParser, AHeadIsAsLongHoweverItIsCut) {
  for (const size_t length : {HttpParser::kLongestHead, HttpParser::kLongestHead + 1}) {
    std::string text = "GET /v2 HTTP/1.1\r\nHost: x\r\n";
    while (text.size() < length - 20'000) text += "A: " + std::string(16'000, 'x') + "\r\n";
    text += "B: ";
    text += std::string(length - text.size() - 4, 'x') + "\r\n\r\n";
    for (const size_t beside : {0, 1, 2, 4, 100}) {
      HttpParser parser(1000);
      auto step = HttpParser::Step::kMore;
      size_t begin = 0, end = 0;
      while (step == HttpParser::Step::kMore && end < text.size()) {
        end = std::min(text.find("\r\n", std::max(begin, end) + 5) + 2 + beside, text.size());
        size_t used = 0;
        step = parser.feed(std::string_view(text).substr(begin, end - begin), used);
        begin += used;
      }
      const bool fits = length == HttpParser::kLongestHead;
      EXPECT_EQ(step, fits ? HttpParser::Step::kWhole : HttpParser::Step::kBad) << beside;
    }
  }
}

TEST(HttpParser, LinesOfABodyAreNoneOfTheHeadHoweverItIsCut) {
  const std::string text =
      "POST /v2 HTTP/1.1\r\nHost: x\r\nContent-Length: 300\r\n\r\n" + std::string(300, '\n');
  for (size_t size = 1; size < text.size(); ++size) {
    HttpParser parser(1000);
    size_t begin = 0, used = 0;
    auto step = HttpParser::Step::kHead;
    for (const size_t end : {size, text.size()}) {
      do {
        step = parser.feed(std::string_view(text).substr(begin, end - begin), used);
        begin += used;
      } while (step == HttpParser::Step::kHead && begin < end);
      ASSERT_NE(step, HttpParser::Step::kBad) << size << " " << parser.refusal().says;
    }
    EXPECT_EQ(step, HttpParser::Step::kWhole) << size;
  }
}

TEST(HttpParser, ChunksMayComeByteByByte) {
  const std::string head = "POST /v2 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const std::string chunks : {"0\r\n\r\n", "0\r\nA: 1\r\n\r\n", "1\r\nx\r\n0;a=b\r\n\r\n"}) {
    HttpParser parser(1000);
    std::string left;
    auto step = HttpParser::Step::kMore;
    for (const char byte : head + chunks) {
      EXPECT_NE(step, HttpParser::Step::kWhole);
      left += byte;
      size_t used = 0;
      step = parser.feed(left, used);
      left.erase(0, used);
    }
    EXPECT_EQ(step, HttpParser::Step::kWhole) << chunks;
  }
}

TEST(HttpParser, FieldsBehindChunksAreNoneOfTheHead) {
  const std::string head =
      "POST /v2 HTTP/1.1\r\nHost: x\r\nA: 1\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::string text = head + "2\r\n{}\r\n0\r\nHost: y\r\nA: 2\r\nOrigin: z\r\nB: 3\r\n\r\n";
  HttpParser parser(1000);
  std::string left = text;
  auto step = HttpParser::Step::kMore;
  while (step != HttpParser::Step::kWhole) {
    size_t used = 0;
    step = parser.feed(left, used);
    ASSERT_NE(step, HttpParser::Step::kBad) << parser.refusal().says;
    left.erase(0, used);
  }
  const HttpMessage message = parser.take();
  EXPECT_EQ(std::distance(message.begin(), message.end()), 3);
  EXPECT_EQ(message["Host"], "x");
  EXPECT_EQ(message["A"], "1");
  EXPECT_EQ(message.count("A"), 1);
  EXPECT_EQ(message.count("Origin"), 0);
  EXPECT_EQ(message.body(), "{}");
}

TEST_F(HttpRulesTest, RefusesWithABodyAndCloses) {
  const std::string host = "Host: x\r\n";
  const std::string get = "GET /v2 HTTP/1.1\r\n";
  const std::string chunks = "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n";
  std::string fields;
  for (size_t i = 0; i < HttpParser::kMostFields; ++i) fields += "a:\r\n";
  const std::string trailers =
      "POST /v2 HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n0\r\n";
  const Refused cases[] = {
      {"\x16\x03\x01 hello\r\n\r\n", 400, "not a request"},
      {get + "\r\n", 400, "0 fields Host"},
      {get + host + host + "\r\n", 400, "2 fields Host"},
      {get + "Ho st: x\r\n\r\n", 400, "not a request"},
      {get + "Host : x\r\n\r\n", 400, "not a request"},
      {"GET /v2 HTTP/1.1\nHost: x\n\n", 400, "not a request"},
      {get + "Host: x\n\n", 400, "not a request"},
      {"GET /v2 HTTP/9.9\r\n" + host + "\r\n", 400, "not a request"},
      {"GET v2 HTTP/1.1\r\n" + host + "\r\n", 400, "neither a path nor a URL"},
      {"POST /v2 HTTP/1.1\r\n" + host + "Transfer-Encoding: gzip, chunked\r\n\r\n", 400, "chunked"},
      {"POST /v2 HTTP/1.1\r\n" + host + "Transfer-Encoding: gzip\r\n\r\n", 400, "chunked"},
      {"POST /v2 HTTP/1.0\r\n" + chunks, 400, "chunked"},
      {"POST /v2 HTTP/1.1\r\n" + host + "Content-Length: 2\r\n" + chunks, 400, "not a request"},
      {"POST /v2 HTTP/1.1\r\n" + host + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400,
       "not a request"},
      {"POST /v2 HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n", 400,
       "not a request"},
      {"POST /v2 HTTP/1.1\r\n" + host + "Expect: tea\r\nContent-Length: 2\r\n\r\n{}", 417,
       "Expect"},
      {get + host + "Large: " + std::string(70'000, 'x') + "\r\n\r\n", 431, "65536 bytes"},
      {get + host + std::string(70'000, 'x'), 431, "65536 bytes"},
      {get + host + fields + "\r\n", 431, "129 fields, expected at most 128"},
      {get + host + fields + fields, 431, "more than 128 fields"},
      {trailers + fields + "\r\n", 431, "130 fields, expected at most 128"},
      {trailers + "a: " + std::string(5000, 'x') + "\r\n\r\n", 431, "4096 bytes"},
      {post_text(kEcho, std::string(2 << 20, ' ')), 413, "1048576 bytes"},
      {"POST /v2 HTTP/1.1\r\n" + host + "Content-Length: 99999999999\r\n\r\n", 413,
       "1048576 bytes"},
  };
  for (const Refused& bad : cases) {
    SCOPED_TRACE(bad.sent.substr(0, 100));
    HttpClient client(server_->ports().http);
    client.send(bad.sent);
    auto reply = client.receive();
    EXPECT_EQ(reply.status, bad.status);
    EXPECT_EQ(reply.headers["connection"], "close");
    EXPECT_THAT(reply.body, HasSubstr(bad.says));
    EXPECT_TRUE(Json::parse(reply.body, nullptr, false).contains("error"));
    EXPECT_EQ(client.receive().status, 0);
  }
  expect_alive();
}

// A head that comes in pieces is held to the same rules, as soon as it breaks one.
TEST(HttpParserTest, NoticesABareLineFeedInALaterPiece) {
  HttpParser parser(100);
  size_t used = 0;
  EXPECT_EQ(parser.feed("GET / HTTP/1.1\r\nHo", used), HttpParser::Step::kMore);
  EXPECT_EQ(used, 16u);
  EXPECT_EQ(parser.feed("Host: x\n", used), HttpParser::Step::kBad);
}

TEST(HttpParserTest, TakesARequestByteByByte) {
  const std::string text =
      "\r\nPOST http://h/v2?q HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3\r\nabc\r\n1;x=y\r\nd\r\n0\r\n\r\n";
  HttpParser parser(100);
  std::string buffer;
  auto step = HttpParser::Step::kMore;
  for (const char byte : text) {
    EXPECT_NE(step, HttpParser::Step::kWhole);
    buffer.push_back(byte);
    do {
      size_t used = 0;
      step = parser.feed(buffer, used);
      buffer.erase(0, used);
    } while (step == HttpParser::Step::kHead && !buffer.empty());
  }
  ASSERT_EQ(step, HttpParser::Step::kWhole);
  const HttpMessage message = parser.take();
  EXPECT_EQ(message.body(), "abcd");
  EXPECT_EQ(path_of(message), "/v2?q");
}

TEST_F(HttpRulesTest, AnswersEveryPipelinedRequestInOrder) {
  std::string text;
  for (int i = 0; i < 50; ++i) {
    text +=
        post_text(kEcho, fmt::format(R"({{"id":"{}",{})", i, std::string_view(kFour).substr(1)));
  }
  client_->send(text);
  client_->half_close();
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(Json::parse(client_->receive().body)["id"], std::to_string(i));
  }
}

TEST_F(HttpRulesTest, AnswersAClientThatHasSentAll) {
  engine_->hold = true;
  client_->send(post_text(kEcho, kFour));
  client_->half_close();
  engine_->wait_held(1);
  // What tells such a client from one that is gone.
  EXPECT_EQ(client_->receive_head().status, 100);
  engine_->release();
  EXPECT_EQ(client_->receive().status, 200);
  EXPECT_EQ(client_->receive().status, 0);
}

TEST_F(HttpRulesTest, AsksForTheBodyOfWhoWaits) {
  client_->send(fmt::format(
      "POST {} HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n", kEcho,
      sizeof(kFour) - 1));
  EXPECT_EQ(client_->receive_head().status, 100);
  client_->send(kFour);
  EXPECT_EQ(client_->receive().status, 200);
  HttpClient large(server_->ports().http);
  large.send(
      "POST /v2 HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 9999999\r\n\r\n");
  EXPECT_EQ(large.receive().status, 413);
}

TEST_F(HttpRulesTest, AnswersHeadWithoutABody) {
  client_->send("HEAD /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n");
  auto head = client_->receive_head();
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.headers["content-length"], "13");
  EXPECT_EQ(client_->get("/v2/health/live").body, R"({"live":true})");
}

TEST_F(HttpRulesTest, SaysWhichMethodsAPathHas) {
  EXPECT_EQ(client_->get(kEcho).headers["allow"], "POST");
  EXPECT_EQ(client_->post("/v2/health/live", "").headers["allow"], "GET, HEAD");
  EXPECT_EQ(client_->post("/v2/logging", "").headers.count("allow"), 0u);
}

TEST_F(HttpRulesTest, TakesAbsoluteTargets) {
  client_->send("GET http://somewhere:80/v2/health/live?x HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(client_->receive().body, R"({"live":true})");
}

TEST_F(HttpRulesTest, KeepsAConnectionOfHttp10WhereAskedTo) {
  client_->send("GET /v2 HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /v2 HTTP/1.0\r\n\r\n");
  EXPECT_EQ(client_->receive().headers["connection"], "keep-alive");
  EXPECT_EQ(client_->receive().headers["connection"], "close");
  EXPECT_EQ(client_->receive().status, 0);
}

TEST_F(HttpRulesTest, TakesDeflateWithoutItsHeader) {
  z_stream stream{};
  ASSERT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(1024, '\0');
  std::string plain = kFour;
  stream.next_in = reinterpret_cast<Bytef*>(plain.data());
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  ASSERT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  const auto reply = client_->post(kEcho, packed, "Content-Encoding: deflate\r\n");
  EXPECT_EQ(reply.status, 200) << reply.body;
}

TEST_F(HttpRulesTest, TakesNullAsAbsent) {
  const auto reply = client_->post(
      kEcho, R"({"id":null,"parameters":null,"outputs":null,"inputs":[{"name":"IN","shape":[1,4],)"
             R"("datatype":"FP32","data":[1,2,3,4],"parameters":null}]})");
  EXPECT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(client_->post(kEcho, R"({"inputs":null})").status, 400);
}

TEST_F(HttpRulesTest, ClosesWhoIsIdleForWhoIsNew) {
  std::vector<std::unique_ptr<HttpClient>> idle;
  for (int i = 0; i < 20; ++i) {
    idle.push_back(std::make_unique<HttpClient>(server_->ports().http));
    EXPECT_EQ(idle.back()->get("/v2/health/live").status, 200);
  }
  EXPECT_EQ(idle.front()->get("/v2/health/live").status, 0);  // it was the longest without one
  EXPECT_EQ(idle.back()->get("/v2/health/live").status, 200);
}

// Who has been served comes again, and an upload is not idle.
TEST_F(HttpRulesTest, ClosesWhoHasAskedForNothingBeforeOthers) {
  HttpClient served(server_->ports().http), uploads(server_->ports().http);
  EXPECT_EQ(served.get("/v2/health/live").status, 200);
  const std::string upload = post_text(kEcho, kFour, "Expect: 100-continue\r\n");
  const size_t head = upload.size() - std::string_view(kFour).size();
  uploads.send(upload.substr(0, head));
  EXPECT_EQ(uploads.receive_head().status, 100);
  uploads.send(upload.substr(head, 8));
  std::vector<std::unique_ptr<HttpClient>> idle;
  for (int i = 0; i < 50; ++i) idle.push_back(std::make_unique<HttpClient>(server_->ports().http));
  expect_alive();
  EXPECT_EQ(served.get("/v2/health/live").status, 200);
  uploads.send(upload.substr(head + 8));
  EXPECT_EQ(uploads.receive().status, 200);
}

TEST_F(HttpRulesTest, TurnsAwayWhereEveryConnectionIsBusy) {
  engine_->hold = true;
  std::vector<std::unique_ptr<HttpClient>> busy;
  for (size_t i = 0; i < 8; ++i) {
    busy.push_back(std::make_unique<HttpClient>(server_->ports().http));
    busy.back()->send(post_text(kEcho, kFour));
  }
  engine_->wait_held(8);
  HttpClient late(server_->ports().http);
  EXPECT_EQ(late.receive().status, 503);
  engine_->release();
  for (const auto& client : busy) EXPECT_EQ(client->receive().status, 200);
  engine_->hold = false;
  expect_alive();
}

// Lowers the limit of descriptors to those that are open, so that accepting fails until it is
// raised again.
TEST_F(HttpRulesTest, AcceptsAgainAfterDescriptorsRanOut) {
#if __has_feature(address_sanitizer)
  GTEST_SKIP() << "UBSan looks at objects through a pipe, for which no descriptor is left";
#endif
  expect_alive();
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  std::vector<std::unique_ptr<HttpClient>> waiting;
  for (int i = 0; i < 3; ++i) waiting.push_back(std::make_unique<HttpClient>());
  rlimit none = before;
  none.rlim_cur = 3;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  for (const auto& client : waiting) {
    client->connect(server_->ports().http);
    client->send("GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n");
  }
  // Answered by the thread that accepts, after it has tried to.
  client_->get("/v2/health/live");
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  for (const auto& client : waiting) EXPECT_EQ(client->receive().status, 200);
}

TEST_F(HttpRulesTest, ListensOnBothKindsOfAddress) {
  HttpClient six;
  if (!six.connect_v6(server_->ports().http)) GTEST_SKIP() << "this machine has no ::1";
  EXPECT_EQ(six.get("/v2/health/live").status, 200);
}

// What a decision's id is made of: names of services may hold anything.
TEST(PercentEncoding, MakesOnePieceOfAPathThatDecodesToTheSame) {
  for (const std::string text :
       {"pipeline:a/b", "50 % of it?", "x#y&z=1", "\u00e4\u4e2d", "a-b_c.d~e", ""}) {
    const std::string piece = encode_percent(text);
    EXPECT_EQ(piece.find_first_of("/?#&= "), piece.npos) << piece;
    EXPECT_EQ(decode_percent(piece), text);
  }
  EXPECT_EQ(encode_percent("pipeline:a/b c"), "pipeline%3Aa%2Fb%20c");
  EXPECT_EQ(encode_percent("a-b_c.d~e"), "a-b_c.d~e");
  EXPECT_EQ(decode_percent("100%"), "100%");
}

}  // namespace
}  // namespace fermata::serve
