#include "load/http_response.h"

#include <strings.h>

#include <charconv>
#include <utility>

#include "base/status.h"

namespace fermata::load {
namespace {

constexpr const char* kJsonLength = "inference-header-content-length";

}  // namespace

HttpResponseParser::HttpResponseParser() {
  http_parser_init(&parser_, HTTP_RESPONSE);
  parser_.data = this;
}

HttpResponseParser& HttpResponseParser::of(http_parser* parser) {
  return *static_cast<HttpResponseParser*>(parser->data);
}

// A header arrives in pieces: it is whole when the next one or the body begins.
bool HttpResponseParser::end_header() {
  in_value_ = false;
  const std::string field = std::exchange(field_, {});
  const std::string value = std::exchange(value_, {});
  if (strcasecmp(field.c_str(), kJsonLength) != 0) return true;
  size_t length = 0;
  const char* const last = value.data() + value.size();
  const auto [end, problem] = std::from_chars(value.data(), last, length);
  response_.json_bytes = length;
  return problem == std::errc() && end == last;
}

const http_parser_settings& HttpResponseParser::callbacks() {
  static const http_parser_settings settings = [] {
    http_parser_settings s;
    http_parser_settings_init(&s);
    s.on_header_field = [](http_parser* p, const char* at, size_t size) {
      HttpResponseParser& self = of(p);
      if (self.in_value_ && !self.end_header()) return 1;
      self.field_.append(at, size);
      return 0;
    };
    s.on_header_value = [](http_parser* p, const char* at, size_t size) {
      of(p).in_value_ = true;
      of(p).value_.append(at, size);
      return 0;
    };
    s.on_headers_complete = [](http_parser* p) { return of(p).end_header() ? 0 : -1; };
    s.on_body = [](http_parser* p, const char* at, size_t size) {
      of(p).response_.body.append(at, size);
      return 0;
    };
    s.on_message_complete = [](http_parser* p) {
      HttpResponseParser& self = of(p);
      self.response_.status = static_cast<int>(p->status_code);
      self.response_.keep_alive = http_should_keep_alive(p) != 0;
      self.complete_ = true;
      http_parser_pause(p, 1);
      return 0;
    };
    return s;
  }();
  return settings;
}

absl::StatusOr<bool> HttpResponseParser::feed(std::string_view bytes) {
  const size_t used = http_parser_execute(&parser_, &callbacks(), bytes.data(), bytes.size());
  const auto problem = HTTP_PARSER_ERRNO(&parser_);
  if (problem != HPE_OK && problem != HPE_PAUSED) {
    return internal("the server's response is not HTTP/1.1: {}", http_errno_description(problem));
  }
  if (complete_ && used < bytes.size()) {
    return internal("the server sent {} bytes beyond its response", bytes.size() - used);
  }
  return complete_;
}

bool HttpResponseParser::feed_end() {
  if (!complete_) http_parser_execute(&parser_, &callbacks(), nullptr, 0);
  return complete_;
}

HttpResponse HttpResponseParser::take() {
  http_parser_init(&parser_, HTTP_RESPONSE);
  complete_ = false;
  return std::exchange(response_, {});
}

}  // namespace fermata::load
