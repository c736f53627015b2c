#include <atomic>
#include <utility>
#include <vector>

#include "base/check.h"
#include "load/scripted_server.h"
#include "serve/call/status_map.h"
#include "serve/http/http_server.h"

namespace fermata::load {
namespace {

using serve::HttpExchange;
using serve::HttpResponse;

constexpr char kMetadata[] =
    R"({"name": "m", "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]})";

class HttpServer : public ScriptedServer, public serve::HttpHandler {
 public:
  explicit HttpServer(Script script) : script_(std::move(script)) {
    auto started = serve::HttpServer::start({.address = "127.0.0.1"}, *this);
    FERMATA_CHECK(started.ok());
    http_ = std::move(*started);
  }
  ~HttpServer() override {
    http_->stop();
    silent_.clear();
  }
  std::string address() const override { return "127.0.0.1:" + std::to_string(http_->port()); }
  uint64_t received() const override { return received_; }

 private:
  void request(HttpExchange exchange) override {
    if (exchange.method() == serve::HttpMethod::kGet) {
      const bool known = exchange.target() == "/v2/models/m";
      return exchange.respond({.status = static_cast<uint16_t>(known ? 200 : 404),
                               .body = known ? kMetadata : R"({"error": "no such service"})"});
    }
    const auto reply = script_(received_++);
    if (!reply) return silent_.push_back(std::move(exchange));
    exchange.respond(reply->status.ok() ? answer(*reply) : refusal(reply->status));
  }
  void opened(uint64_t) override {}
  void closed(uint64_t) override {}

  static HttpResponse answer(const Reply& reply) {
    float scores[4] = {};
    scores[reply.output] = 1;
    std::string body = R"({"outputs": [{"name": "y", "datatype": "FP32", "shape": [1, 4], )"
                       R"("parameters": {"binary_data_size": 16}}])";
    if (reply.batch_items > 0) {
      body += R"(, "parameters": {"batch_size": )" + std::to_string(reply.batch_items) +
              R"(, "queueing_us": 1500, "run_us": 2500})";
    }
    body += "}";
    const std::string json_bytes = std::to_string(body.size());
    body.append(reinterpret_cast<const char*>(scores), sizeof scores);
    return {.headers = {{"Inference-Header-Content-Length", json_bytes}}, .body = std::move(body)};
  }
  static HttpResponse refusal(const absl::Status& status) {
    return {.status = serve::http_status(status.code()),
            .body = R"({"error": ")" + std::string(status.message()) + R"("})"};
  }

  Script script_;
  std::atomic<uint64_t> received_ = 0;
  std::vector<HttpExchange> silent_;  // of the server's one thread
  std::unique_ptr<serve::HttpServer> http_;
};

}  // namespace

std::unique_ptr<ScriptedServer> scripted_http(ScriptedServer::Script script) {
  return std::make_unique<HttpServer>(std::move(script));
}

}  // namespace fermata::load
