#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <string>

#include "cluster/channel.h"
#include "cluster/options.h"

namespace fermata::cluster {

// The transport over TCP, with TLS where there are files. Its files are read anew for every
// connection, so that new certificates need no restart.
struct Tcp {
  using Socket = boost::asio::ip::tcp::socket;

  // INVALID_ARGUMENT where a file cannot be read or does not fit the others.
  static absl::Status check(const TlsFiles& tls);
  // Blocks for at most `patience`. `address`: HOST:PORT.
  static absl::StatusOr<std::shared_ptr<Channel>> connect(const std::string& address,
                                                          Duration patience);
  static std::shared_ptr<Channel> accepted(Socket socket);
  // Before anything else, on either side; blocks. UNAUTHENTICATED where the other side has no
  // certificate of the authority, or refuses this one's.
  static absl::Status secure(Channel& channel, const TlsFiles& tls, bool accepts);
  // Where the sockets of this process live; only blocking calls are made.
  static boost::asio::io_context& io();
};

}  // namespace fermata::cluster
