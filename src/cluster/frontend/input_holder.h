#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "cluster/frontend/held_requests.h"
#include "cluster/wire/worker_listener.h"

namespace fermata::cluster {

// Where workers fetch the inputs of a frontend's requests, and bring what they answer.
class InputHolder {
 public:
  InputHolder(HeldRequests& requests, TlsFiles tls)
      : requests_(requests), listener_(std::move(tls)) {}
  // As Listener::listen().
  absl::Status listen(const std::string& host, uint16_t port);
  uint16_t port() const { return listener_.port(); }
  std::map<std::string, uint64_t> refused() const { return listener_.refused(); }

 private:
  // `keeper`: where that worker gives what it keeps; empty: it keeps nothing.
  absl::Status serve(Channel& channel, const std::string& keeper);
  absl::Status send_inputs(Channel& channel, const Fetch& fetch);
  absl::Status take_outputs(const Frame& frame, const std::string& keeper);

  HeldRequests& requests_;
  WorkerListener listener_;
};

}  // namespace fermata::cluster
