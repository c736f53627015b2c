#include "cluster/wire/machine.h"

#include <algorithm>

namespace fermata::cluster {

std::string machine_of(const boost::asio::ip::tcp::endpoint& from) {
  namespace ip = boost::asio::ip;
  const ip::address address = from.address();
  if (address.is_v4()) return address.to_string();
  const ip::address_v6 whole = address.to_v6();
  if (whole.is_v4_mapped()) return ip::make_address_v4(ip::v4_mapped, whole).to_string();
  if (whole.is_loopback()) return whole.to_string();
  auto network = whole.to_bytes();
  std::fill(network.begin() + network.size() / 2, network.end(), uint8_t{0});
  return ip::make_address_v6(network).to_string() + "/64";
}

}  // namespace fermata::cluster
