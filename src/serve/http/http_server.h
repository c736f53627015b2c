#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/byte_budget.h"
#include "base/time.h"
#include "model/tensor.h"
#include "serve/call/client.h"

namespace boost::asio {
class io_context;
}

namespace fermata::serve {

enum class HttpMethod : uint8_t { kGet, kPost, kOther };  // HEAD counts as GET

struct HttpResponse {
  uint16_t status = 200;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  std::vector<Payload> tail;  // follows the body, shared until it is sent
};

struct HttpRequestState;
class EventListener;  // serve/http/event_stream.h
class WebSocketHandler;

// One request and the duty to answer it. Move-only; may go to another thread.
class HttpExchange {
 public:
  explicit HttpExchange(std::shared_ptr<HttpRequestState> request) : request_(std::move(request)) {}
  HttpExchange(HttpExchange&&) = default;
  HttpExchange& operator=(HttpExchange&&) = default;

  HttpMethod method() const;
  std::string_view target() const;                       // path and query, as sent
  std::string_view header(std::string_view name) const;  // empty: absent
  std::string_view body() const;
  // Keeps body() alive.
  std::shared_ptr<const void> owner() const;
  const Client& client() const;
  uint64_t connection() const { return client().connection; }
  // What this request takes of the connection's and the server's memory until it is answered and
  // its owner is gone: its body, and what is made of it.
  HeldBytes& held();

  // Whether it asks to go on as a WebSocket; then upgrade(), in place of respond() and within
  // HttpHandler::request(), lets it. Where it may not, since other requests are under way or the
  // server stops, the client is told.
  bool wants_web_socket() const;
  void upgrade(std::shared_ptr<WebSocketHandler> handler);
  // The same with server-sent events; any request may be answered by them.
  void stream_events(std::shared_ptr<EventListener> listener);

  // Exactly once; from any thread. Never blocks; a client that is gone is no error.
  void respond(HttpResponse response);

 private:
  std::shared_ptr<HttpRequestState> request_;
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
  std::string address = "localhost";
  uint16_t port = 0;  // 0: a free one
  uint32_t threads = 1;
  size_t max_body_bytes = size_t{1} << 30;  // of a longer one: 413
  // Beyond it the connection that has been without a request for longest is closed for a new
  // one, or one whose client does not read its reply; where all are busy, the new one is turned
  // away.
  size_t max_connections = 1024;
  // What all connections, and what each of them may hold: bodies, what they unpack to, replies.
  std::shared_ptr<ByteBudget> budget;  // none: without limit
  size_t connection_bytes = size_t{4} << 30;
  // After drain() what has half come is given up, however its client goes on.
  Duration arrival_grace;
};

// HTTP/1.1 with keep-alive. A connection may have two requests under way, so
// that reading goes on while one is running and a closed connection is noticed.
class HttpServer {
 public:
  // UNAVAILABLE where it cannot listen. `handler` outlives the server.
  static absl::StatusOr<std::unique_ptr<HttpServer>> start(const HttpOptions& options,
                                                           HttpHandler& handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  uint16_t port() const;
  size_t connections() const;  // that are open
  // An io thread, for others that wait for few events.
  boost::asio::io_context& io();
  // No new connections; every open one ends with its next reply, those without a request for a
  // second then, those of half a request after the grace. Blocks for a moment; not from an io
  // thread.
  void drain();
  // Ends the io threads and closes what is open: no handler runs any more. Exchanges that are still
  // held must be gone before the server is destroyed.
  void stop();

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace fermata::serve
