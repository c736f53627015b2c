#include "serve/config/reach.h"

#include <boost/asio/ip/address.hpp>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/status.h"

namespace fermata::serve {

bool is_loopback(const std::string& host) {
  if (host == "localhost" || host == "[::1]") return true;
  boost::system::error_code no_address;  // a name: where it leads, others decide
  const auto address = boost::asio::ip::make_address(host, no_address);
  return !no_address && address.is_loopback();
}

absl::Status check_reach(const ListenOptions& listen) {
  if (listen.is_public || is_loopback(listen.host)) return absl::OkStatus();
  return invalid("host {} can be reached from other machines, expected public: true or --public",
                 listen.host);
}

absl::Status check_ports(const ListenOptions& listen) {
  const std::pair<std::string_view, uint16_t> ports[] = {
      {"http", listen.http},
      {"grpc", listen.grpc},
      {"metrics", listen.metrics},
      {"admin_port", listen.admin_port.value_or(0)}};
  for (size_t i = 0; i < std::size(ports); ++i) {
    for (size_t k = 0; k < i; ++k) {
      if (ports[i].second == 0 || ports[i].second != ports[k].second) continue;
      return invalid("{} and {} are both {}", ports[k].first, ports[i].first, ports[i].second);
    }
  }
  return absl::OkStatus();
}

bool serves_admin(const ListenOptions& listen) {
  return !listen.admin_port && listen.admin.value_or(is_loopback(listen.host));
}

absl::Status admin_is_off() {
  return error(absl::StatusCode::kPermissionDenied,
               "administrative calls are off here; listen.admin and listen.admin_port of the "
               "configuration turn them on");
}

}  // namespace fermata::serve
