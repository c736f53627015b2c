#include "serve/http/http_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <new>
#include <string>
#include <utility>

#include "base/http_chunks.h"

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

HttpParser::Step HttpParser::refuse_head() {
  return refuse(431, fmt::format("the head is longer than {} bytes", kLongestHead));
}

HttpParser::Step HttpParser::refuse(const boost::system::error_code& failed) {
  if (failed == http::error::header_limit || failed == http::error::buffer_overflow) {
    if (!parser_->is_header_done()) return refuse_head();
    return refuse(431, fmt::format("a line of a chunk, or the fields behind them, take more than "
                                   "{} bytes",
                                   kLongestTrailer));
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

// Before they are parsed, which takes far longer. O(bytes) over all calls of a request.
bool HttpParser::has_too_many_lines(std::string_view head) {
  constexpr std::string_view kEnd = "\r\n\r\n";
  if (head.starts_with("\r\n")) return false;  // its end, of which only a part had come
  const size_t from = std::min(counted_, head.size());
  const size_t end = head.find(kEnd, from - std::min(from, kEnd.size() - 1));
  const size_t to = end == head.npos ? head.size() : end + kEnd.size() / 2;
  if (to > from)
    lines_ += static_cast<size_t>(std::count(head.begin() + from, head.begin() + to, '\n'));
  counted_ = std::max(from, to);
  return lines_ > kMostFields + 2;  // the first is none; of one too many check_fields() says it
}

HttpParser::Step HttpParser::feed(std::string_view bytes, size_t& used) {
  used = 0;
  if (!parser_) {
    while (bytes.substr(used).starts_with("\r\n")) used += 2;  // RFC 9112, section 2.2
    if (used == bytes.size() || bytes.substr(used) == "\r") return Step::kMore;
    parser_.emplace();
    parser_->header_limit(kLongestHead);
    parser_->body_limit(max_body_);
    scanned_ = head_ = lines_ = counted_ = 0;
  }
  while (!parser_->is_done()) {
    const std::string_view left = bytes.substr(used);
    const bool in_head = !parser_->is_header_done();
    if (in_head && has_too_many_lines(left)) {
      return refuse(431, fmt::format("the head has more than {} fields", kMostFields));
    }
    boost::system::error_code failed;
    // What it cannot go on with is not looked at beyond some bytes: fields behind the chunks.
    const bool in_chunks = !in_head && parser_->chunked();
    const std::string_view piece = in_chunks ? left.substr(0, kLongestTrailer) : left;
    if (in_chunks && piece.size() < kShortestChunks) return Step::kMore;
    const size_t taken = put(piece, failed);
    used += taken;
    counted_ -= std::min(counted_, taken);
    if (in_head) head_ += taken;
    // The parser's own limit is of what it takes at a time.
    if (head_ > kLongestHead) return refuse_head();
    if (failed == http::error::need_more && piece.size() < left.size()) {
      if (taken == 0) return refuse(http::error::header_limit);
      continue;
    }
    if (failed == http::error::need_more) {
      const std::string_view rest = bytes.substr(used);
      if (in_head && head_ + rest.size() >= kLongestHead) return refuse_head();
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
      fields_.clear();
      if (parser_->chunked()) {
        for (const auto& each : parser_->get()) fields_.push_back(&each);
      }
      if (!parser_->is_done()) return Step::kHead;
    }
    if (used == bytes.size() && !parser_->is_done()) return Step::kMore;
  }
  if (auto bad = check_fields()) return refuse(bad->status, std::move(bad->says));
  return Step::kWhole;
}

std::optional<HttpRefusal> HttpParser::check_fields() const {
  const HttpMessage& head = parser_->get();
  const auto fields = static_cast<size_t>(std::distance(head.begin(), head.end()));
  if (fields <= kMostFields) return std::nullopt;
  return HttpRefusal{
      431, fmt::format("the head has {} fields, expected at most {}", fields, kMostFields)};
}

std::optional<HttpRefusal> HttpParser::check_head() const {
  if (auto bad = check_fields()) return bad;
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

// One with a name of the head's stands behind that, not at the end.
void HttpParser::drop_trailer() {
  HttpMessage& message = parser_->get();
  auto of_head = fields_.begin();
  for (auto at = message.begin(); at != message.end();) {
    const bool is_of_head = of_head != fields_.end() && *of_head == &*at;
    if (is_of_head) ++of_head;
    at = is_of_head ? std::next(at) : message.erase(at);
  }
}

HttpMessage HttpParser::take() {
  if (parser_->chunked()) drop_trailer();
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
