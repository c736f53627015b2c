#pragma once

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
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
  // True when `bytes` completed a response, which take() then gives. An error
  // where they are no HTTP, or more than one response.
  absl::StatusOr<bool> feed(std::string_view bytes);
  // The connection was closed: true where that ends a response without a length.
  bool feed_end();
  // Makes the parser ready for the next response.
  HttpResponse take();

 private:
  using Parser = boost::beast::http::response_parser<boost::beast::http::string_body>;
  absl::Status read_json_length();

  std::optional<Parser> parser_;  // none: nothing of a response is there
  std::string waiting_;           // too little to be read yet
  std::optional<size_t> json_bytes_;
};

}  // namespace fermata::load
