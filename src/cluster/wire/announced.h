#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "absl/strings/match.h"
#include "cluster/wire/channel.h"

namespace fermata::cluster {

// Where others find what listens at this host and port; without a host where it listens everywhere.
inline std::string announced(const std::string& host, uint16_t port) {
  if (host == "0.0.0.0" || host == "::") return fmt::format(":{}", port);
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return is_ipv6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

// The same, of who has connected: what listens everywhere is where that connects from.
inline std::string found_at(const std::string& announced, const Channel& channel) {
  if (!absl::StartsWith(announced, ":")) return announced;
  const std::string peer = channel.peer();
  return peer.substr(0, peer.rfind(':')) + announced;
}

}  // namespace fermata::cluster
