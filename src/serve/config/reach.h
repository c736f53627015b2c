#pragma once

#include <string>

#include "absl/status/status.h"
#include "serve/config/config.h"

namespace fermata::serve {

// An address or a name that only programs of the same machine reach.
bool is_loopback(const std::string& host);

// INVALID_ARGUMENT where other machines could reach the server and nobody has said that they may:
// there are neither keys nor TLS yet.
absl::Status check_reach(const ListenOptions& listen);

// INVALID_ARGUMENT where two front ends are to have one port. 0, a free one, stands for many.
absl::Status check_ports(const ListenOptions& listen);

// Whether administrative calls (load, unload, shared memory, placement, decisions) are answered on
// the ports of everybody.
bool serves_admin(const ListenOptions& listen);

// What such a call gets where they are not. PERMISSION_DENIED.
absl::Status admin_is_off();

}  // namespace fermata::serve
