#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/websocket/stream.hpp>
#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_budget.h"
#include "model/tensor.h"
#include "serve/http/http_parser.h"
#include "serve/http/upgraded.h"

namespace fermata::serve {

class HttpConnection;
class WebSocket;

// One message of a client. Bytes of it may be shared until nobody needs them; they are counted
// against the connection's budget until then.
struct WebMessage {
  boost::beast::flat_buffer buffer;
  bool binary = false;
  HeldBytes held;

  std::string_view bytes() const {
    return {static_cast<const char*>(buffer.cdata().data()), buffer.size()};
  }
};

// One message to a client: `head`, then `tail`.
struct WebReply {
  std::string head;
  std::vector<Payload> tail;
  bool binary = false;
  bool final = true;  // false: more is to come of the same message; it overtakes final ones
  HeldBytes held;     // where empty, send() counts its head, however little is left
};

// What a WebSocket calls, on its io thread; must not block.
class WebSocketHandler {
 public:
  virtual ~WebSocketHandler() = default;
  // The first call. Whoever holds `socket` may send() to it, open or not.
  virtual void opened(std::shared_ptr<WebSocket> socket) = 0;
  // Every message gets exactly one final reply, unless closed() comes first.
  virtual void message(std::shared_ptr<const WebMessage> message) = 0;
  virtual void closed() = 0;  // the last call
};

// The WebSocket protocol (RFC 6455) on a connection that was upgraded; Boost.Beast speaks it. All
// runs on the connection's io thread but send(). A client may have kMostUnderWay messages without
// a written reply, then no more is read of it. One that sends or takes nothing for as long as a
// transfer may take is closed, and so is one that pings more than kMostPings times a second, or
// whose messages find no memory.
class WebSocket final : public Upgraded {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  static constexpr size_t kMostUnderWay = 256;
  static constexpr int kMostPings = 64;

  WebSocket(HttpConnection& connection, Socket& socket, size_t max_message,
            std::shared_ptr<WebSocketHandler> handler);
  // Answers the request for it; once.
  void accept(HttpMessage request) override;
  bool idle() const override { return under_way_ == 0; }  // every message has its reply
  bool waits_for_client() const override { return idle() || writing_; }
  // A message of which a part has come, or a reply that its client has not taken.
  bool holds() const override { return writing_ || incoming_.size() > 0; }
  void drain() override;
  void closed() override;
  // From any thread. Never blocks; a client that is gone is no error.
  void send(WebReply reply);
  const std::shared_ptr<ByteBudget>& budget() const;

 private:
  using Failure = boost::system::error_code;
  void read();
  void on_read(bool failed);
  void enqueue(WebReply reply);
  void write();
  void on_written(bool failed);
  void end(boost::beast::websocket::close_code code, std::string_view why);
  void count_ping();

  HttpConnection& connection_;
  boost::beast::websocket::stream<Socket&> stream_;
  HttpMessage request_;
  std::shared_ptr<WebSocketHandler> handler_;  // null: closed
  boost::beast::flat_buffer incoming_;
  HeldBytes held_;                        // of it
  std::deque<WebReply> ahead_, replies_;  // not written; those ahead are not final
  WebReply writing_reply_;
  size_t under_way_ = 0;
  std::chrono::steady_clock::time_point pings_since_;
  int pings_ = 0;
  bool open_ = false, reading_ = false, writing_ = false, draining_ = false, ending_ = false;
};

}  // namespace fermata::serve
