#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "serve/http/http_server.h"

namespace fermata::serve {

// What a request line asks for.
enum class HttpCall : uint8_t {
  kUnknown,      // 404
  kWrongMethod,  // 405
  kInfer,
  kStream,  // the same over a WebSocket
  kServerLive,
  kServerReady,
  kServerMetadata,
  kModelReady,
  kModelMetadata,
  kModelConfig,
  kStatistics,
  kRepositoryIndex,
  kModelLoad,
  kModelUnload,
  kMemoryStatus,
  kMemoryRegister,
  kMemoryUnregister,
  kCudaMemoryStatus,
  kCudaMemoryRegister,
  kCudaMemoryUnregister,
  kPage,
  kMetrics,
  kPlacement,
  kDecisions,
  kLive,      // serve/live/ reads the path itself
  kTraceSetting,
  kLogSettings,
  kUnserved,  // of the protocol, but 501
};

// Whether it changes or shows what only who runs the server should: serve/reach.h.
bool is_admin(HttpCall call);

// The names in the path, decoded; empty where the path has none.
struct HttpRoute {
  HttpCall call = HttpCall::kUnknown;
  std::string model, version, region, page;
  std::string_view allow;  // of kWrongMethod: the methods that the path has
};

std::string decode_percent(std::string_view text);
// All but letters, digits and -._~ as %XX, so that it is one piece of a path.
std::string encode_percent(std::string_view text);
HttpRoute find_route(HttpMethod method, std::string_view target);

}  // namespace fermata::serve
