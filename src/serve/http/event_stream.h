#pragma once

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <deque>
#include <memory>
#include <string>

#include "serve/http/upgraded.h"

namespace fermata::serve {

class HttpConnection;
class EventStream;

// What an EventStream calls, on its io thread; must not block.
class EventListener {
 public:
  virtual ~EventListener() = default;
  // The first call. Whoever holds `stream` may send() to it, open or not.
  virtual void opened(std::shared_ptr<EventStream> stream) = 0;
  virtual void closed() = 0;  // the last call; none where it was never opened
};

// Server-sent events on a connection: a reply that does not end. Its client has at most kMostQueued
// bytes waiting, or one event that is longer: more are dropped, and it is not told, so that one
// that reads slowly holds neither memory nor anybody.
class EventStream final : public Upgraded {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  static constexpr size_t kMostQueued = size_t{1} << 20;

  EventStream(HttpConnection& connection, Socket& socket, std::shared_ptr<EventListener> listener);
  void accept(HttpMessage request) override;
  bool idle() const override { return false; }
  bool waits_for_client() const override { return writing_; }
  bool holds() const override { return writing_; }
  void drain() override;
  void closed() override;
  // From any thread; never blocks. `events` are whole events as they go over the wire.
  void send(std::shared_ptr<const std::string> events);

 private:
  void enqueue(std::shared_ptr<const std::string> events);
  void write();
  void read();

  HttpConnection& connection_;
  Socket& socket_;
  std::shared_ptr<EventListener> listener_;  // null: closed
  std::deque<std::shared_ptr<const std::string>> queue_;
  size_t queued_ = 0;
  std::array<char, 256> ignored_;  // what the client sends
  bool writing_ = false, open_ = false;
};

}  // namespace fermata::serve
