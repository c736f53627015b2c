#include <grpcpp/support/byte_buffer.h>

#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include "base/check.h"
#include "grpc_service.pb.h"
#include "scaling/cases.h"
#include "serve/grpc/frame_watch.h"
#include "serve/grpc/grpc_message.h"
#include "serve/http/http_connection.h"
#include "serve/http/http_parser.h"
#include "serve/net/compression.h"

namespace fermata::scaling {
namespace {

using namespace serve;
using Tcp = boost::asio::ip::tcp;

// What a server does that has no models: it answers every request and every message.
class Answers final : public HttpHandler, public WebSocketHandler {
 public:
  void request(HttpExchange exchange) override {
    ++answered;
    if (exchange.wants_web_socket()) {
      exchange.upgrade(std::shared_ptr<WebSocketHandler>(this, [](WebSocketHandler*) {}));
    } else {
      exchange.respond({});
    }
  }
  void opened(uint64_t) override {}
  void closed(uint64_t) override {}
  void opened(std::shared_ptr<WebSocket> socket) override { socket_ = std::move(socket); }
  void message(std::shared_ptr<const WebMessage> message) override {
    ++answered;
    WebReply reply;
    reply.head = message->bytes();
    socket_->send(std::move(reply));
  }
  void closed() override { socket_ = nullptr; }

  size_t answered = 0;

 private:
  std::shared_ptr<WebSocket> socket_;
};

// A connection whose both ends are this thread.
class Connection {
 public:
  Connection() : client_(shard_.io) {
    Tcp::acceptor acceptor(shard_.io, {boost::asio::ip::address_v4::loopback(), 0});
    Tcp::socket server(shard_.io);
    client_.connect(acceptor.local_endpoint());
    acceptor.accept(server);
    std::make_shared<HttpConnection>(std::move(server), shard_)->start();
    read();
  }
  ~Connection() {
    client_.close();
    shard_.end();
    shard_.io.restart();
    shard_.io.poll();
  }
  // Sends it, until so many requests and messages have been answered.
  void send(const std::string& bytes, size_t answers) {
    bool sent = false;
    boost::asio::async_write(client_, boost::asio::buffer(bytes),
                             [&sent](const auto&, size_t) { sent = true; });
    while (!sent || handler_.answered < answers) shard_.io.run_one();
  }

 private:
  void read() {
    client_.async_read_some(boost::asio::buffer(replies_), [this](const auto& failed, size_t) {
      if (!failed) read();
    });
  }

  Answers handler_;
  HttpOptions options_;
  std::atomic<bool> draining_ = false;
  HttpShard shard_{options_, handler_, draining_};
  Tcp::socket client_;
  std::array<char, 65536> replies_;
};

constexpr char kGet[] = "GET /v2 HTTP/1.1\r\nHost: x\r\n\r\n";
constexpr char kUpgrade[] =
    "GET /v2/stream HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n";

// Of at most 125 bytes, masked by zeros, as RFC 6455 has it.
std::string web_frame(uint8_t kind, const std::string& bytes) {
  return std::string{static_cast<char>(kind), static_cast<char>(0x80 | bytes.size())} +
         std::string(4, '\0') + bytes;
}

void send_over_web_socket(const std::string& bytes, size_t messages) {
  Connection connection;
  connection.send(kUpgrade, 1);
  measured([&] { connection.send(bytes, 1 + messages); });
}

// One request in pieces, as they come.
void parse_in_pieces(const std::string& request, size_t piece) {
  measured([&] {
    HttpParser parser(1 << 30);
    std::string buffer;
    auto step = HttpParser::Step::kMore;
    for (size_t i = 0; i < request.size(); i += piece) {
      buffer += request.substr(i, piece);
      for (size_t used = 1; used > 0 && !buffer.empty() && step != HttpParser::Step::kWhole;) {
        step = parser.feed(buffer, used);
        buffer.erase(0, used);
      }
    }
    FERMATA_CHECK(step == HttpParser::Step::kWhole);
  });
}

std::string http2_frame(char kind, char flags, uint32_t stream, const std::string& body) {
  std::string start(9, '\0');
  for (int i = 0; i < 3; ++i) start[i] = static_cast<char>(body.size() >> (16 - 8 * i));
  start[3] = kind;
  start[4] = flags;
  for (int i = 0; i < 4; ++i) start[5 + i] = static_cast<char>(stream >> (24 - 8 * i));
  return start + body;
}

void watch_in_pieces(const std::string& frames, size_t piece) {
  const std::string bytes = std::string(24, 'p') + frames;
  measured([&] {
    FrameWatch watch([] { return std::chrono::steady_clock::time_point(); });
    for (size_t i = 0; i < bytes.size(); i += piece) {
      FERMATA_CHECK(watch.see(std::string_view(bytes).substr(i, piece)));
    }
  });
}

void read_grpc(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  grpc::ByteBuffer buffer(&slice, 1);
  measured([&] {
    HeldBytes held;
    inference::ModelInferRequest message;
    FERMATA_CHECK(read_message(buffer, 1 << 30, held, message).ok());
  });
}

std::string infer_of_inputs(size_t n) {
  inference::ModelInferRequest message;
  for (size_t i = 0; i < n; ++i) {
    auto& input = *message.add_inputs();
    input.set_name("x" + number(i));
    (*input.mutable_parameters())["p"].set_int64_param(1);
    message.add_raw_input_contents("b");
  }
  return message.SerializeAsString();
}

std::string infer_of_strings(size_t n) {
  inference::ModelInferRequest message;
  auto& contents = *message.add_inputs()->mutable_contents();
  for (size_t i = 0; i < n; ++i) contents.add_bytes_contents("s");
  return message.SerializeAsString();
}

void add_http_cases(Cases& cases) {
  cases.push_back({"http_pipelined", 200, [](size_t n) {
                     Connection connection;
                     const std::string all = repeated(
                         n, [](size_t) { return kGet; }, "");
                     measured([&] { connection.send(all, n); });
                   }});
  // About as many fields as there may be, each of so many bytes.
  const auto head = [](size_t n) {
    return "GET /v2 HTTP/1.1\r\nHost: x\r\n" +
           repeated(
               100, [n](size_t i) { return "h" + number(i) + ": " + std::string(n, 'v') + "\r\n"; },
               "") +
           "\r\n";
  };
  cases.push_back({"http_head", 100, [head](size_t n) { parse_in_pieces(head(n), 1 << 20); }});
  cases.push_back({"http_head_in_bytes", 50, [head](size_t n) { parse_in_pieces(head(n), 1); }});
  const auto chunks = [](size_t n) {
    return "POST /v2 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" +
           repeated(
               n, [](size_t) { return "1\r\nx\r\n"; }, "") +
           "0\r\n\r\n";
  };
  cases.push_back({"http_chunks", 2'000, [chunks](size_t n) {
                     Connection connection;
                     const std::string all = chunks(n);
                     measured([&] { connection.send(all, 1); });
                   }});
  cases.push_back(
      {"http_chunks_in_bytes", 500, [chunks](size_t n) { parse_in_pieces(chunks(n), 1); }});
  cases.push_back({"http_body_in_bytes", 2'000, [](size_t n) {
                     parse_in_pieces("POST /v2 HTTP/1.1\r\nHost: x\r\nContent-Length: " +
                                         number(n) + "\r\n\r\n" + std::string(n, 'b'),
                                     1);
                   }});
  cases.push_back({"web_messages", 500, [](size_t n) {
                     send_over_web_socket(repeated(
                                              n, [](size_t) { return web_frame(0x81, "{}"); }, ""),
                                          n);
                   }});
  cases.push_back({"web_fragments", 2'000, [](size_t n) {
                     send_over_web_socket(
                         web_frame(0x01, "f") +
                             repeated(
                                 n, [](size_t) { return web_frame(0x00, "f"); }, "") +
                             web_frame(0x80, "f"),
                         1);
                   }});
}

void add_grpc_cases(Cases& cases) {
  constexpr char kData = 0, kHeaders = 1, kContinuation = 9, kEnd = 4;
  const auto data = [](size_t n) {
    return repeated(
        n, [](size_t) { return http2_frame(kData, 0, 1, "d"); }, "");
  };
  cases.push_back({"grpc_frames", 4'000, [data](size_t n) { watch_in_pieces(data(n), 1 << 20); }});
  cases.push_back(
      {"grpc_frames_in_bytes", 2'000, [data](size_t n) { watch_in_pieces(data(n), 1); }});
  cases.push_back(
      {"grpc_head_in_frames", 2'000, [](size_t n) {
         watch_in_pieces(
             http2_frame(kHeaders, 0, 1, "h") +
                 repeated(
                     n, [](size_t) { return http2_frame(kContinuation, 0, 1, "h"); }, "") +
                 http2_frame(kContinuation, kEnd, 1, "h"),
             64);
       }});
  cases.push_back({"grpc_weight_inputs", 2'000, [](size_t n) { read_grpc(infer_of_inputs(n)); }});
  cases.push_back({"grpc_weight_strings", 5'000, [](size_t n) { read_grpc(infer_of_strings(n)); }});
  cases.push_back({"grpc_packed", 5'000, [](size_t n) {
                     const std::string plain = infer_of_strings(n);
                     read_grpc(compress({plain}, Encoding::kGzip));
                   }});
}

}  // namespace

void add_wire_cases(Cases& cases) {
  add_http_cases(cases);
  add_grpc_cases(cases);
}

}  // namespace fermata::scaling
