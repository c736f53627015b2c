#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "serve/http/http_parser.h"
#include "serve/http/http_routes.h"
#include "serve/net/compression.h"

namespace fermata::serve {
namespace {

// The requests in `text` when it comes in pieces of `size` bytes, and how it ends.
std::string read_in_pieces(std::string_view text, size_t size) {
  HttpParser parser(1 << 16);
  std::string seen, buffer;
  while (!text.empty()) {
    buffer += text.substr(0, size);
    text.remove_prefix(std::min(size, text.size()));
    size_t used = 0;
    do {
      const auto step = parser.feed(buffer, used);
      FERMATA_CHECK(used <= buffer.size());
      buffer.erase(0, used);
      if (step == HttpParser::Step::kBad) {
        FERMATA_CHECK(parser.refusal().status >= 400 && !parser.refusal().says.empty());
        return seen + "bad";
      }
      if (step == HttpParser::Step::kMore) break;
      if (step != HttpParser::Step::kWhole) continue;
      const HttpMessage message = parser.take();
      FERMATA_CHECK(message.count("Host") <= 1);
      seen += std::string(path_of(message)) + " " + message.body() + "\n";
    } while (!buffer.empty());
  }
  return seen;
}

}  // namespace
}  // namespace fermata::serve

// What a front end reads of a request's head itself: its target and its codings; and requests,
// which are the same however they are cut.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fermata::serve;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const HttpMethod method : {HttpMethod::kGet, HttpMethod::kPost, HttpMethod::kOther}) {
    const HttpRoute route = find_route(method, text);
    FERMATA_CHECK(route.call != HttpCall::kInfer || !route.model.empty());
    FERMATA_CHECK(method != HttpMethod::kOther || route.call <= HttpCall::kWrongMethod);
  }
  const std::string whole = read_in_pieces(text, text.size() + 1);
  const size_t last = text.empty() ? 0 : static_cast<uint8_t>(text.back());
  for (const size_t piece : {size_t{1}, size_t{7}, 1 + last}) {
    const std::string seen = read_in_pieces(text, piece);
    // What is wrong with a head that is not whole need not have been noticed yet.
    FERMATA_CHECK(seen == whole || seen + "bad" == whole);
  }
  (void)choose_encoding(text);
  (void)parse_content_encoding(text);
  return 0;
}
