#include "serve/http/http_pages.h"

namespace fermata::serve {
namespace {

std::string_view page_type(std::string_view name) {
  if (name.ends_with(".js")) return "text/javascript; charset=utf-8";
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  return "text/html; charset=utf-8";
}

}  // namespace

std::optional<HttpResponse> find_page(std::string_view name) {
  for (const Page& page : pages()) {
    if (page.name != name) continue;
    HttpResponse response;
    response.content_type = page_type(name);
    response.body = page.text;
    response.headers = {{"Content-Security-Policy",
                         "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'"},
                        {"X-Content-Type-Options", "nosniff"},
                        {"Cache-Control", "no-cache"}};
    return response;
  }
  return std::nullopt;
}

}  // namespace fermata::serve
