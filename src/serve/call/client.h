#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <string>

namespace fermata::serve {

// Who sends a request.
struct Client {
  uint64_t connection = 0;  // or stream on one: a number that no other one of this server has
  std::string address;      // of its machine; of IPv6 the network, its first 64 bits
};

// Thread-safe.
uint64_t new_connection_number();
std::string address_of(const boost::asio::ip::tcp::endpoint& from);

}  // namespace fermata::serve
