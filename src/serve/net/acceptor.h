#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace fermata::serve {

// Listens on every address that a host name has, and goes on accepting whatever
// happens: where descriptors run out, it waits for some to come free.
class Acceptor {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  // Both are called on the thread of `io` that listens.
  struct Events {
    std::function<boost::asio::io_context&()> home;  // where the next socket shall live
    std::function<void(Socket)> accepted;            // close it: the client is turned away
    std::function<void()> exhausted;                 // no descriptor is left for a client
  };

  // `host`: an address, in brackets or not, or a name. `port` 0: a free one, the same for all
  // addresses. UNAVAILABLE where it cannot listen on any. Blocks to look the name up.
  static absl::StatusOr<std::unique_ptr<Acceptor>> open(boost::asio::io_context& io,
                                                        const std::string& host, uint16_t port);
  // Once. The acceptor is then only touched by the thread that runs `io`.
  void start(Events events);
  // Those who have connected by now are accepted first: they would be reset.
  void close();
  uint16_t port() const { return port_; }

 private:
  using Listener = boost::asio::ip::tcp::acceptor;
  explicit Acceptor(boost::asio::io_context& io) : io_(io) {}
  absl::Status listen(const std::vector<boost::asio::ip::tcp::endpoint>& where);
  void accept(Listener& listener);
  void take(Socket socket);
  void resume(Listener& listener);

  boost::asio::io_context& io_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  Events events_;
  uint16_t port_ = 0;
};

}  // namespace fermata::serve
