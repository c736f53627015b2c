#include "serve/http_server.h"

#include <restinio/all.hpp>
#include <thread>

#include "base/status.h"

namespace fermata::serve {
namespace {

constexpr size_t kReadBuffer = 16 * 1024;
constexpr size_t kRequestsUnderWay = 2;
constexpr size_t kLongestName = 16 * 1024;  // of a target, a header's name or value
constexpr size_t kMostHeaders = 100;
// How long a client may take to send one request, and to take its reply.
constexpr std::chrono::minutes kTransferLimit(5);
// A request ends by its deadline or its queue, not by the transport's clock.
constexpr std::chrono::hours kNoLimit(24 * 365);

// Tells the handler of connections that come and go.
class Listener {
 public:
  explicit Listener(HttpHandler& handler) : handler_(handler) {}
  void state_changed(const restinio::connection_state::notice_t& notice) noexcept {
    if (std::holds_alternative<restinio::connection_state::accepted_t>(notice.cause())) {
      handler_.opened(notice.connection_id());
    } else {
      handler_.closed(notice.connection_id());
    }
  }

 private:
  HttpHandler& handler_;
};

struct Traits : restinio::default_traits_t {
  using connection_state_listener_t = Listener;
};
using Request = restinio::request_t;

const Request& as_request(const std::shared_ptr<void>& request) {
  return *static_cast<const Request*>(request.get());
}

// A payload as restinio wants a buffer that it shares.
struct SharedBuffer {
  Payload payload;
  const void* data() const { return payload.bytes.data(); }
  size_t size() const { return payload.bytes.size(); }
};

restinio::http_status_line_t status_line(uint16_t status) {
  const restinio::http_status_code_t code(status);
  switch (status) {
    case 200:
      return {code, "OK"};
    case 400:
      return {code, "Bad Request"};
    case 404:
      return {code, "Not Found"};
    case 405:
      return {code, "Method Not Allowed"};
    case 429:
      return {code, "Too Many Requests"};
    case 499:
      return {code, "Client Closed Request"};
    case 501:
      return {code, "Not Implemented"};
    case 503:
      return {code, "Service Unavailable"};
    case 504:
      return {code, "Gateway Timeout"};
    default:
      return {code, "Internal Server Error"};
  }
}

}  // namespace

HttpMethod HttpExchange::method() const {
  const auto method = as_request(request_).header().method();
  if (method == restinio::http_method_get()) return HttpMethod::kGet;
  if (method == restinio::http_method_post()) return HttpMethod::kPost;
  return HttpMethod::kOther;
}

std::string_view HttpExchange::target() const {
  return as_request(request_).header().request_target();
}

std::string_view HttpExchange::header(std::string_view name) const {
  const auto found =
      as_request(request_).header().opt_value_of(restinio::string_view_t(name.data(), name.size()));
  return found ? std::string_view(found->data(), found->size()) : std::string_view();
}

std::string_view HttpExchange::body() const { return as_request(request_).body(); }

uint64_t HttpExchange::connection() const { return as_request(request_).connection_id(); }

void HttpExchange::respond(HttpResponse response) {
  const auto request = std::static_pointer_cast<Request>(std::exchange(request_, nullptr));
  auto builder = request->create_response(status_line(response.status));
  builder.append_header(restinio::http_field::content_type, std::move(response.content_type));
  for (auto& [name, value] : response.headers) builder.append_header(name, std::move(value));
  builder.set_body(std::move(response.body));
  for (Payload& payload : response.tail) {
    builder.append_body(std::make_shared<SharedBuffer>(SharedBuffer{std::move(payload)}));
  }
  builder.done();
}

struct HttpServerImpl {
  restinio::asio_ns::io_context io;
  uint16_t port = 0;
  std::unique_ptr<restinio::http_server_t<Traits>> server;
  std::vector<std::thread> threads;

  HttpServerImpl(const HttpOptions& options, HttpHandler& handler)
      : io(static_cast<int>(options.threads)) {
    server = std::make_unique<restinio::http_server_t<Traits>>(
        restinio::external_io_context(io), [&](auto& settings) {
          settings.address(options.address)
              .port(options.port)
              .buffer_size(kReadBuffer)
              .max_pipelined_requests(kRequestsUnderWay)
              .incoming_http_msg_limits(restinio::incoming_http_msg_limits_t()
                                            .max_url_size(kLongestName)
                                            .max_field_name_size(kLongestName)
                                            .max_field_value_size(kLongestName)
                                            .max_field_count(kMostHeaders)
                                            .max_body_size(options.max_body_bytes))
              .read_next_http_message_timelimit(kTransferLimit)
              .write_http_response_timelimit(kTransferLimit)
              .handle_request_timeout(kNoLimit)
              .acceptor_options_setter([](auto& acceptor) {
                acceptor.set_option(restinio::asio_ns::ip::tcp::acceptor::reuse_address(true));
              })
              .socket_options_setter([](auto& socket) {
                socket.set_option(restinio::asio_ns::ip::tcp::no_delay(true));
              })
              .acceptor_post_bind_hook(
                  [this](auto& acceptor) { port = acceptor.local_endpoint().port(); })
              .connection_state_listener(std::make_shared<Listener>(handler))
              .request_handler([&handler](restinio::request_handle_t request) {
                handler.request(HttpExchange(std::move(request)));
                return restinio::request_accepted();
              });
        });
    server->open_sync();
    for (uint32_t i = 0; i < options.threads; ++i) threads.emplace_back([this] { io.run(); });
  }
  ~HttpServerImpl() { stop(); }

  void stop_accepting() {
    if (threads.empty() || server == nullptr) return;
    restinio::asio_ns::post(io, [this] { server->close_sync(); });
  }
  void stop() {
    io.stop();
    for (std::thread& thread : threads) thread.join();
    threads.clear();
  }
};

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::start(const HttpOptions& options,
                                                              HttpHandler& handler) {
  try {
    return std::unique_ptr<HttpServer>(
        new HttpServer(std::make_unique<HttpServerImpl>(options, handler)));
  } catch (const std::exception& failed) {
    return error(absl::StatusCode::kUnavailable, "cannot listen on {}:{}: {}", options.address,
                 options.port, failed.what());
  }
}

HttpServer::HttpServer(std::unique_ptr<HttpServerImpl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;
uint16_t HttpServer::port() const { return impl_->port; }
void HttpServer::stop_accepting() { impl_->stop_accepting(); }
void HttpServer::stop() { impl_->stop(); }

}  // namespace fermata::serve
