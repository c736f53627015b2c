#include "serve/config/reach.h"

#include <boost/asio/ip/address.hpp>

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
  return invalid("host {} can be reached from other machines, expected public beside it",
                 listen.host);
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
