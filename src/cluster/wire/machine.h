#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <string>

namespace fermata::cluster {

// The machine from which a connection comes, as far as its address tells: of IPv6 the network, its
// first 64 bits.
std::string machine_of(const boost::asio::ip::tcp::endpoint& from);

}  // namespace fermata::cluster
