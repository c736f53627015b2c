#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "serve/compression.h"
#include "serve/http_routes.h"

// What a front end reads of a request's head itself: its target and its codings.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fermata::serve;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const HttpMethod method : {HttpMethod::kGet, HttpMethod::kPost, HttpMethod::kOther}) {
    const HttpRoute route = find_route(method, text);
    FERMATA_CHECK(route.call != HttpCall::kInfer || !route.model.empty());
    FERMATA_CHECK(method != HttpMethod::kOther || route.call <= HttpCall::kWrongMethod);
  }
  (void)choose_encoding(text);
  (void)parse_content_encoding(text);
  return 0;
}
