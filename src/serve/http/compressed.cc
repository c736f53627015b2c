#include "serve/http/compressed.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fermata::serve {
namespace {

constexpr size_t kCompressedFrom = 1024;  // below, compressing costs more than it saves

}  // namespace

void compress_response(HttpResponse& response, Encoding encoding) {
  if (encoding == Encoding::kIdentity) return;
  std::vector<std::string_view> pieces = {response.body};
  size_t size = response.body.size();
  for (const Payload& payload : response.tail) {
    pieces.emplace_back(reinterpret_cast<const char*>(payload.bytes.data()), payload.bytes.size());
    size += payload.bytes.size();
  }
  if (size < kCompressedFrom) return;
  std::string packed = compress(pieces, encoding);
  response.body = std::move(packed);
  response.tail.clear();
  response.headers.emplace_back("Content-Encoding", name(encoding));
}

}  // namespace fermata::serve
