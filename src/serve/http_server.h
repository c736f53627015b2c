#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "model/tensor.h"

namespace fermata::serve {

enum class HttpMethod : uint8_t { kGet, kPost, kOther };

struct HttpResponse {
  uint16_t status = 200;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  std::vector<Payload> tail;  // follows the body, shared until it is sent
};

// One request and the duty to answer it. Move-only; may go to another thread.
class HttpExchange {
 public:
  HttpExchange(HttpExchange&&) = default;
  HttpExchange& operator=(HttpExchange&&) = default;

  HttpMethod method() const;
  std::string_view target() const;                       // path and query, as sent
  std::string_view header(std::string_view name) const;  // empty: absent
  std::string_view body() const;
  // Keeps body() alive.
  const std::shared_ptr<void>& owner() const { return request_; }
  uint64_t connection() const;

  // Exactly once; from any thread. Never blocks; a client that is gone is no error.
  void respond(HttpResponse response);

 private:
  friend struct HttpServerImpl;
  explicit HttpExchange(std::shared_ptr<void> request) : request_(std::move(request)) {}
  std::shared_ptr<void> request_;
};

// What a server calls, from its io threads; must not block them.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  virtual void request(HttpExchange exchange) = 0;
  virtual void opened(uint64_t connection) = 0;
  virtual void closed(uint64_t connection) = 0;  // no respond() reaches anyone from now on
};

struct HttpOptions {
  std::string address = "0.0.0.0";
  uint16_t port = 0;  // 0: a free one
  uint32_t threads = 1;
  size_t max_body_bytes = size_t{1} << 30;  // a longer body closes the connection
};

// HTTP/1.1 with keep-alive. A connection may have two requests under way, so
// that reading goes on while one is running and a closed connection is noticed.
struct HttpServerImpl;
class HttpServer {
 public:
  // UNAVAILABLE where it cannot listen. `handler` outlives the server.
  static absl::StatusOr<std::unique_ptr<HttpServer>> start(const HttpOptions& options,
                                                           HttpHandler& handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  uint16_t port() const;
  // No new connections. The open ones go on.
  void stop_accepting();
  // Ends the io threads: no handler runs any more. Exchanges that are still held
  // must be gone before the server is destroyed.
  void stop();

 private:
  explicit HttpServer(std::unique_ptr<HttpServerImpl> impl);
  std::unique_ptr<HttpServerImpl> impl_;
};

}  // namespace fermata::serve
