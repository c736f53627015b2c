// Connections that go on as something else than requests and replies.
#include <utility>

#include "serve/http/event_stream.h"
#include "serve/http/http_connection.h"
#include "serve/json/json_text.h"

namespace fermata::serve {

void HttpConnection::upgrade(HttpRequestState& request, std::shared_ptr<WebSocketHandler> handler) {
  if (!may_upgrade(request)) return;
  become(request, std::make_unique<WebSocket>(*this, socket_, shard_.options.max_body_bytes,
                                              std::move(handler)));
}

void HttpConnection::stream_events(HttpRequestState& request,
                                   std::shared_ptr<EventListener> listener) {
  if (!may_upgrade(request)) return;
  become(request, std::make_unique<EventStream>(*this, socket_, std::move(listener)));
}

bool HttpConnection::may_upgrade(HttpRequestState& request) {
  if (!shard_.draining && slots_.size() == 1 && buffer_.size() == 0 && !reading_) return true;
  request.keep_alive = false;
  HttpResponse response;
  response.status = shard_.draining ? 503 : 400;
  response.body = error_body(
      shard_.draining ? "the server stops"
                      : "a request that takes the connection over has others before or behind it");
  respond(request, std::move(response));
  return false;
}

void HttpConnection::become(HttpRequestState& request, std::unique_ptr<Upgraded> what) {
  deaf_ = true;
  slots_.clear();
  web_ = std::move(what);
  served_ = true;
  upgrade_ = std::move(request.message);
  if (!writing_) web_->accept(std::move(upgrade_));
}

}  // namespace fermata::serve
