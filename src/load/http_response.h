#pragma once

#include <http_parser.h>

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace fermata::load {

struct HttpResponse {
  int status = 0;
  std::optional<size_t> json_bytes;  // Inference-Header-Content-Length
  std::string body;
  bool keep_alive = true;
};

// Puts one response at a time together from the bytes of a connection.
class HttpResponseParser {
 public:
  HttpResponseParser();
  HttpResponseParser(const HttpResponseParser&) = delete;
  HttpResponseParser& operator=(const HttpResponseParser&) = delete;

  // True when `bytes` completed a response, which take() then gives. An error
  // where they are no HTTP, or more than one response.
  absl::StatusOr<bool> feed(std::string_view bytes);
  // The connection was closed: true where that ends a response without a length.
  bool feed_end();
  // Makes the parser ready for the next response.
  HttpResponse take();

 private:
  static HttpResponseParser& of(http_parser* parser);
  bool end_header();  // false where its value cannot be
  static const http_parser_settings& callbacks();

  http_parser parser_;
  HttpResponse response_;
  std::string field_, value_;
  bool in_value_ = false, complete_ = false;
};

}  // namespace fermata::load
