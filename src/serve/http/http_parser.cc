#include "serve/http/http_parser.h"

#include <fmt/format.h>

#include <new>
#include <string>
#include <utility>

namespace fermata::serve {
namespace {

namespace http = boost::beast::http;
using http::field;

std::string_view text(boost::beast::string_view from) { return {from.data(), from.size()}; }

bool is_absolute(std::string_view target) {
  return target.starts_with("http://") || target.starts_with("https://");
}

bool has_bare_line_feed(std::string_view bytes, size_t from) {
  for (size_t at = bytes.find('\n', from); at != bytes.npos; at = bytes.find('\n', at + 1)) {
    if (at == 0 || bytes[at - 1] != '\r') return true;
  }
  return false;
}

}  // namespace

HttpParser::Step HttpParser::refuse(uint16_t status, std::string says) {
  refusal_ = {status, std::move(says)};
  return Step::kBad;
}

HttpParser::Step HttpParser::refuse(const boost::system::error_code& failed) {
  if (failed == http::error::header_limit || failed == http::error::buffer_overflow) {
    return refuse(431, fmt::format("the head is longer than {} bytes", kLongestHead));
  }
  if (failed == http::error::body_limit) {
    return refuse(413, fmt::format("the body is larger than {} bytes", max_body_));
  }
  if (failed == boost::system::errc::not_enough_memory) return refuse(429, kNoMemoryForBody);
  return refuse(400, fmt::format("not a request of HTTP/1.1: {}", failed.message()));
}

// Room for a body is reserved when its length is announced, and taken as bytes come.
size_t HttpParser::put(std::string_view bytes, boost::system::error_code& failed) {
  try {
    return parser_->put({bytes.data(), bytes.size()}, failed);
  } catch (const std::bad_alloc&) {
    failed = make_error_code(boost::system::errc::not_enough_memory);
    return 0;
  }
}

HttpParser::Step HttpParser::feed(std::string_view bytes, size_t& used) {
  used = 0;
  if (!parser_) {
    while (bytes.substr(used).starts_with("\r\n")) used += 2;  // RFC 9112, section 2.2
    if (used == bytes.size() || bytes.substr(used) == "\r") return Step::kMore;
    parser_.emplace();
    parser_->header_limit(kLongestHead);
    parser_->body_limit(max_body_);
    scanned_ = 0;
  }
  while (!parser_->is_done()) {
    const std::string_view left = bytes.substr(used);
    const bool in_head = !parser_->is_header_done();
    boost::system::error_code failed;
    const size_t taken = put(left, failed);
    used += taken;
    if (failed == http::error::need_more) {
      const std::string_view rest = bytes.substr(used);
      if (rest.size() >= kLongestHead) return refuse(http::error::header_limit);
      if (taken > 0) scanned_ = 0;
      if (in_head && has_bare_line_feed(rest, scanned_)) {
        return refuse(400, "not a request of HTTP/1.1: a line feed without a carriage return");
      }
      scanned_ = rest.size();
      return Step::kMore;
    }
    if (failed) return refuse(failed);
    if (in_head && parser_->is_header_done()) {
      if (auto bad = check_head()) return refuse(bad->status, std::move(bad->says));
      if (!parser_->is_done()) return Step::kHead;
    }
    if (used == bytes.size() && !parser_->is_done()) return Step::kMore;
  }
  return Step::kWhole;
}

std::optional<HttpRefusal> HttpParser::check_head() const {
  const HttpMessage& head = parser_->get();
  const bool old = head.version() == 10;
  if (const size_t hosts = head.count(field::host); old ? hosts > 1 : hosts != 1) {
    return HttpRefusal{400, fmt::format("the head has {} fields Host, expected one", hosts)};
  }
  if (const size_t codings = head.count(field::transfer_encoding); codings > 0) {
    const auto coding = head[field::transfer_encoding];
    if (codings > 1 || old || !boost::beast::iequals(coding, "chunked")) {
      return HttpRefusal{400, "Transfer-Encoding is not just chunked"};
    }
  }
  const std::string_view target = text(head.target());
  if (!target.starts_with('/') && !is_absolute(target) && target != "*") {
    return HttpRefusal{400, "the target is neither a path nor a URL"};
  }
  const auto expect = head[field::expect];
  if (!expect.empty() && !boost::beast::iequals(expect, "100-continue")) {
    return HttpRefusal{417, "Expect is not 100-continue"};
  }
  return std::nullopt;
}

bool HttpParser::expects_continue() const {
  return parser_->get().version() > 10 && parser_->get().count(field::expect) > 0;
}

size_t HttpParser::received() const { return parser_->get().body().size(); }

size_t HttpParser::missing() const {
  return static_cast<size_t>(parser_->content_length_remaining().value_or(0));
}

bool HttpParser::inside() const { return parser_.has_value(); }

HttpMessage HttpParser::take() {
  HttpMessage message = parser_->release();
  parser_.reset();
  return message;
}

std::string_view path_of(const HttpMessage& message) {
  const std::string_view target = text(message.target());
  if (!is_absolute(target)) return target;
  const size_t path = target.find('/', target.find("://") + 3);
  return path == target.npos ? "/" : target.substr(path);
}

}  // namespace fermata::serve
