#include "serve/http/http_pages.h"

#include <string>
#include <vector>

#include "serve/net/compression.h"

namespace fermata::serve {
namespace {

std::string_view page_type(std::string_view name) {
  if (name.ends_with(".js")) return "text/javascript; charset=utf-8";
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  return "text/html; charset=utf-8";
}

std::vector<std::string> compressed_pages() {
  std::vector<std::string> all;
  for (const Page& page : pages()) all.push_back(compress({page.text}, Encoding::kGzip));
  return all;
}

}  // namespace

std::optional<HttpResponse> find_page(std::string_view name, std::string_view accept_encoding) {
  for (size_t i = 0; i < pages().size(); ++i) {
    const Page& page = pages()[i];
    if (page.name != name) continue;
    HttpResponse response;
    response.content_type = page_type(name);
    response.headers = {{"Content-Security-Policy",
                         "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'"},
                        {"X-Content-Type-Options", "nosniff"},
                        {"Cache-Control", "no-cache"},
                        {"Vary", "Accept-Encoding"}};
    if (choose_encoding(accept_encoding) == Encoding::kGzip) {
      static const std::vector<std::string> compressed = compressed_pages();
      response.body = compressed[i];
      response.headers.push_back({"Content-Encoding", "gzip"});
    } else {
      response.body = page.text;
    }
    return response;
  }
  return std::nullopt;
}

}  // namespace fermata::serve
