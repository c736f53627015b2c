#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "serve/http/http_server.h"

namespace fermata::serve {

// A file of web/, which the program carries (cmake/Carry.cmake).
struct Page {
  std::string_view name, text;
};
std::span<const Page> pages();

// The page of that name: stream.html; none: nothing. Its scripts and styles come from this server
// only, and no other page may frame it. Compressed where the client accepts
// gzip (all pages once, when one is first asked for); thread-safe.
std::optional<HttpResponse> find_page(std::string_view name, std::string_view accept_encoding);

}  // namespace fermata::serve
