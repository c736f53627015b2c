#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace fermata::serve {

// Whose web pages may open WebSockets and make administrative calls, which a browser sends for a
// page of any server that its user visits.
struct TrustedPages {
  std::vector<std::string> origins;  // of other servers' pages
  // Whether only this machine reaches us. Then our own pages are known by an address or localhost
  // only: a stranger can make any other name mean this machine (DNS rebinding).
  bool loopback = false;
};

// PERMISSION_DENIED where the page that made a request, by its headers Origin and Host, may not.
// What is no browser names no origin, and may; nor does a page that only reads from its own server,
// which may where it knows us by such a name.
absl::Status check_page(std::string_view origin, std::string_view host,
                        const TrustedPages& trusted);

}  // namespace fermata::serve
