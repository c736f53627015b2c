#include "serve/http/web_socket.h"

#include <boost/asio/dispatch.hpp>
#include <boost/beast/websocket.hpp>
#include <utility>

#include "serve/http/http_connection.h"

namespace fermata::serve {
namespace {

namespace net = boost::asio;
namespace websocket = boost::beast::websocket;

constexpr size_t kPieceSize = 64 * 1024;   // read at a time, at most
constexpr size_t kMessageOverhead = 1024;  // what a message takes beside its bytes
constexpr std::chrono::seconds kHandshakeLimit(10);

}  // namespace

WebSocket::WebSocket(HttpConnection& connection, Socket& socket, size_t max_message,
                     std::shared_ptr<WebSocketHandler> handler)
    : connection_(connection), stream_(socket), handler_(std::move(handler)) {
  // Beast's own limit on silence does not know of clients that are not read from for a while.
  stream_.set_option(
      websocket::stream_base::timeout{kHandshakeLimit, websocket::stream_base::none(), false});
  stream_.read_message_max(max_message);
  stream_.auto_fragment(false);
  stream_.control_callback([this](websocket::frame_type kind, boost::beast::string_view) {
    if (kind != websocket::frame_type::close) count_ping();
  });
}

const std::shared_ptr<ByteBudget>& WebSocket::budget() const { return connection_.budget(); }

void WebSocket::accept(HttpMessage request) {
  request_ = std::move(request);
  stream_.async_accept(request_, [this, alive = connection_.shared_from_this()](Failure failed) {
    if (handler_ == nullptr) return;
    if (failed) return connection_.close();
    open_ = true;
    request_ = {};
    handler_->opened(std::shared_ptr<WebSocket>(alive, this));
    if (draining_) return drain();
    read();
  });
}

void WebSocket::closed() {
  if (const auto handler = std::exchange(handler_, nullptr); handler != nullptr && open_) {
    handler->closed();
  }
  ahead_.clear();
  replies_.clear();
}

void WebSocket::drain() {
  draining_ = true;
  if (open_ && idle() && !writing_) end(websocket::close_code::going_away, "the server stops");
}

void WebSocket::read() {
  if (reading_ || draining_ || ending_ || handler_ == nullptr || under_way_ == kMostUnderWay)
    return;
  reading_ = true;
  const bool begins = incoming_.size() == 0;
  stream_.async_read_some(
      incoming_, kPieceSize,
      [this, begins, alive = connection_.shared_from_this()](Failure failed, size_t bytes) {
        if (begins && bytes > 0 && handler_ != nullptr) connection_.touch();
        on_read(bool(failed));
      });
}

void WebSocket::on_read(bool failed) {
  reading_ = false;
  if (handler_ == nullptr || ending_) return;
  if (failed) return connection_.close();
  if (held_.empty()) held_ = HeldBytes(budget());
  if (!held_.grow_to(incoming_.capacity() + kMessageOverhead)) {
    return end(websocket::close_code::try_again_later,
               "memory limit reached (listen.memory_mb): no room for this message");
  }
  if (stream_.is_message_done() && !draining_) {
    connection_.touch();
    ++under_way_;
    auto message = std::make_shared<WebMessage>();
    message->buffer = std::exchange(incoming_, {});
    message->binary = stream_.got_binary();
    message->held = std::exchange(held_, {});
    handler_->message(std::move(message));
  }
  read();
}

void WebSocket::send(WebReply reply) {
  if (reply.held.empty()) {
    budget()->take_anyway(reply.head.size() + kMessageOverhead);
    reply.held = HeldBytes(budget(), reply.head.size() + kMessageOverhead);
  }
  net::dispatch(stream_.get_executor(),
                [this, alive = connection_.shared_from_this(), reply = std::move(reply)]() mutable {
                  enqueue(std::move(reply));
                });
}

void WebSocket::enqueue(WebReply reply) {
  if (handler_ == nullptr) return;
  (reply.final ? replies_ : ahead_).push_back(std::move(reply));
  write();
}

void WebSocket::write() {
  auto& next = ahead_.empty() ? replies_ : ahead_;
  if (writing_ || ending_ || next.empty()) return;
  writing_ = true;
  connection_.touch();  // the client has had nothing to read until now
  writing_reply_ = std::move(next.front());
  next.pop_front();
  std::vector<net::const_buffer> pieces = {net::buffer(writing_reply_.head)};
  for (const Payload& payload : writing_reply_.tail) {
    pieces.emplace_back(payload.bytes.data(), payload.bytes.size());
  }
  stream_.binary(writing_reply_.binary);
  stream_.async_write(pieces, [this, alive = connection_.shared_from_this()](
                                  Failure failed, size_t) { on_written(bool(failed)); });
}

void WebSocket::on_written(bool failed) {
  writing_ = false;
  const WebReply written = std::exchange(writing_reply_, {});
  if (handler_ == nullptr || ending_) return;
  if (failed) return connection_.close();
  if (written.final) --under_way_;
  connection_.touch();
  write();
  if (draining_) return drain();
  read();
}

void WebSocket::end(websocket::close_code code, std::string_view why) {
  if (std::exchange(ending_, true)) return;
  stream_.async_close({code, boost::beast::string_view(why.data(), why.size())},
                      [alive = connection_.shared_from_this()](Failure) { alive->close(); });
}

void WebSocket::count_ping() {
  const auto now = std::chrono::steady_clock::now();
  if (now - pings_since_ > std::chrono::seconds(1)) {
    pings_since_ = now;
    pings_ = 0;
  }
  if (++pings_ == kMostPings) {
    // Not from within the callback: beast is reading.
    net::post(stream_.get_executor(), [this, alive = connection_.shared_from_this()] {
      if (handler_ != nullptr) end(websocket::close_code::policy_error, "too many pings");
    });
  }
}

}  // namespace fermata::serve
