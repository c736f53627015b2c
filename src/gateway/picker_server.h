#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/time.h"

namespace fermata::gateway {

struct PickerOptions {
  std::string listen = "localhost:9002";  // HOST:PORT, port 0 for a free one
  std::vector<std::string> servers;       // HOST:PORT; each address of a name is a server
  Duration slo;                           // of requests that name no time and no objective
  std::map<std::string, Duration> objectives;
  std::string certificate, key;  // PEM files; empty: without TLS
};

// An endpoint picker of the Gateway API's inference extension: Envoy's ext_proc v3 over gRPC, and
// gRPC's health service.
class PickerServer {
 public:
  // UNAVAILABLE where it cannot listen, INVALID_ARGUMENT of options.
  static absl::StatusOr<std::unique_ptr<PickerServer>> start(const PickerOptions& options);
  // Ends open conversations: the gateway then goes on without them.
  ~PickerServer();
  PickerServer(const PickerServer&) = delete;
  PickerServer& operator=(const PickerServer&) = delete;

  uint16_t port() const;

 private:
  struct Parts;
  explicit PickerServer(std::unique_ptr<Parts> parts);
  const std::unique_ptr<Parts> parts_;
};

}  // namespace fermata::gateway
