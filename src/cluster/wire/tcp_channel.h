#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cluster/options.h"
#include "cluster/wire/channel.h"

namespace fermata::cluster {

// The transport over TCP, which nothing else of the parts knows (tests/cluster_simulated has
// another in virtual time), with TLS where there are files. Its files are read anew for every
// connection, so that new certificates need no restart.
struct Tcp {
  // INVALID_ARGUMENT where a file cannot be read or does not fit the others.
  static absl::Status check(const TlsFiles& tls);
  // Blocks for at most `patience`. `address`: HOST:PORT.
  static absl::StatusOr<std::shared_ptr<Channel>> connect(const std::string& address,
                                                          Duration patience);
  // UNAVAILABLE where it cannot listen; port 0: a free one.
  static absl::StatusOr<std::unique_ptr<Acceptor>> listen(const std::string& host, uint16_t port);
  // Before anything else, on either side; blocks. UNAUTHENTICATED where the other side has no
  // certificate of the authority, or refuses this one's.
  static absl::Status secure(Channel& channel, const TlsFiles& tls, bool accepts);
};

}  // namespace fermata::cluster
