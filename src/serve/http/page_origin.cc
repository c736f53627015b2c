#include "serve/http/page_origin.h"

#include <algorithm>
#include <boost/asio/ip/address.hpp>

#include "absl/strings/match.h"
#include "base/status.h"

namespace fermata::serve {
namespace {

bool alike(std::string_view a, std::string_view b) {
  return absl::EqualsIgnoreCase({a.data(), a.size()}, {b.data(), b.size()});
}

// Of "name:port", "name", "[::1]:port".
std::string_view name_of(std::string_view host) {
  if (host.starts_with('[')) return host.substr(1, host.find(']') - 1);
  return host.substr(0, host.find(':'));
}

bool names_an_address(std::string_view host) {
  const std::string_view name = name_of(host);
  boost::system::error_code bad;
  boost::asio::ip::make_address(std::string(name), bad);
  return !bad || alike(name, "localhost");
}

bool is_own(std::string_view origin, std::string_view host) {
  const size_t scheme = origin.find("://");
  return scheme != std::string_view::npos && alike(origin.substr(scheme + 3), host);
}

}  // namespace

absl::Status check_page(std::string_view origin, std::string_view host,
                        const TrustedPages& trusted) {
  const bool known_host = !trusted.loopback || names_an_address(host);
  if (origin.empty()) {
    if (known_host || host.empty()) return absl::OkStatus();
    return error(absl::StatusCode::kPermissionDenied,
                 "Host is {}, expected an address or localhost, by which this server is known",
                 host);
  }
  const auto& others = trusted.origins;
  const bool is_listed = std::find(others.begin(), others.end(), origin) != others.end();
  if (is_listed || (known_host && is_own(origin, host))) return absl::OkStatus();
  return error(absl::StatusCode::kPermissionDenied,
               "pages of {} may not use this server; listen.origins of the configuration lets them",
               origin);
}

}  // namespace fermata::serve
