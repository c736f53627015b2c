#include "load/transport.h"

#include "load/grpc_transport.h"
#include "load/http_transport.h"

namespace fermata::load {

absl::StatusOr<std::unique_ptr<Transport>> make_transport(Protocol protocol,
                                                          const std::string& address,
                                                          Listener& listener) {
  if (protocol == Protocol::kHttp) return HttpTransport::make(address, listener);
  return std::make_unique<GrpcTransport>(address, listener);
}

}  // namespace fermata::load
