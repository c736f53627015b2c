#include <atomic>
#include <restinio/all.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "load/scripted_server.h"

namespace fermata::load {
namespace {

constexpr char kMetadata[] =
    R"({"name": "m", "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]})";

restinio::http_status_line_t status_line(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kDeadlineExceeded:
      return restinio::status_gateway_time_out();
    case absl::StatusCode::kResourceExhausted:
      return restinio::status_too_many_requests();
    default:
      return restinio::status_internal_server_error();
  }
}

class HttpServer : public ScriptedServer {
 public:
  explicit HttpServer(Script script)
      : script_(std::move(script)), http_(restinio::own_io_context(), [this](auto& settings) {
          settings.address("127.0.0.1")
              .port(0)
              .request_handler([this](restinio::request_handle_t request) {
                return handle(std::move(request));
              });
          settings.acceptor_post_bind_hook([this](asio::ip::tcp::acceptor& acceptor) {
            port_ = acceptor.local_endpoint().port();
          });
        }) {
    http_.open_sync();
    thread_ = std::thread([this] { http_.io_context().run(); });
  }
  ~HttpServer() override {
    asio::post(http_.io_context(), [this] {
      silent_.clear();
      http_.close_sync();
      http_.io_context().stop();
    });
    thread_.join();
  }
  std::string address() const override { return "127.0.0.1:" + std::to_string(port_); }
  uint64_t received() const override { return received_; }

 private:
  restinio::request_handling_status_t handle(restinio::request_handle_t request) {
    if (request->header().method() == restinio::http_method_get()) {
      const bool known = request->header().path() == "/v2/models/m";
      return request->create_response(known ? restinio::status_ok() : restinio::status_not_found())
          .set_body(known ? kMetadata : R"({"error": "no such service"})")
          .done();
    }
    const auto reply = script_(received_++);
    if (!reply) {
      silent_.push_back(std::move(request));
      return restinio::request_accepted();
    }
    return reply->status.ok() ? answer(*request, *reply) : refuse(*request, reply->status);
  }

  static restinio::request_handling_status_t answer(restinio::request_t& request,
                                                    const Reply& reply) {
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
    return request.create_response(restinio::status_ok())
        .append_header("Inference-Header-Content-Length", json_bytes)
        .set_body(std::move(body))
        .done();
  }

  static restinio::request_handling_status_t refuse(restinio::request_t& request,
                                                    const absl::Status& status) {
    return request.create_response(status_line(status))
        .set_body(R"({"error": ")" + std::string(status.message()) + R"("})")
        .done();
  }

  Script script_;
  std::atomic<uint64_t> received_ = 0;
  uint16_t port_ = 0;
  std::vector<restinio::request_handle_t> silent_;
  restinio::http_server_t<restinio::default_single_thread_traits_t> http_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<ScriptedServer> scripted_http(ScriptedServer::Script script) {
  return std::make_unique<HttpServer>(std::move(script));
}

}  // namespace fermata::load
