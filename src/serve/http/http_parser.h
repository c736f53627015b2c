#pragma once

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fermata::serve {

using HttpMessage = boost::beast::http::request<boost::beast::http::string_body>;

// Why a connection cannot go on: the status of its last answer, and what to say.
struct HttpRefusal {
  uint16_t status = 400;
  std::string says;
};

constexpr char kNoMemoryForBody[] =  // 429
    "memory limit reached (listen.memory_mb): no room for the body of the request; retry later";

// The requests of one connection, one after another, from its bytes as they come (RFC 9112).
// What proxies and servers have read in different ways is refused: two Hosts, blanks in names,
// bare line feeds, codings before chunked, a length beside chunks. Fields behind chunks, which a
// proxy may not look at, are none of the head (RFC 9110, section 6.5.1) and are dropped.
class HttpParser {
 public:
  static constexpr size_t kLongestHead = 64 * 1024;
  // In a head, and with those behind the chunks of a body: each takes far more than it says.
  static constexpr size_t kMostFields = 128;
  static constexpr size_t kLongestTrailer = 4 * 1024;  // of those, and of a line of a chunk

  enum class Step {
    kMore,   // the bytes end inside a request, or before one
    kHead,   // a head is complete and a body follows: expects_continue() and missing() are known
    kWhole,  // take() gives it
    kBad,    // refusal() says why; nothing may be fed any more
  };

  explicit HttpParser(size_t max_body) : max_body_(max_body) {}

  // Takes from the front of `bytes`, at most one request; `used` is how many bytes. What it
  // leaves is to be fed again, with more behind it. O(bytes) over all calls of a request.
  Step feed(std::string_view bytes, size_t& used);

  bool expects_continue() const;
  size_t head() const { return head_; }  // bytes of it that have come
  size_t received() const;               // of the body
  size_t missing() const;                // of the body, where its length was announced
  bool inside() const;                   // a request has begun and is not whole
  HttpMessage take();                    // after kWhole
  void drop() { parser_.reset(); }       // what has come; nothing may be fed any more
  const HttpRefusal& refusal() const { return refusal_; }

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  bool has_too_many_lines(std::string_view head);
  size_t put(std::string_view bytes, boost::system::error_code& failed);
  Step refuse(uint16_t status, std::string says);
  Step refuse_head();
  Step refuse(const boost::system::error_code& failed);
  std::optional<HttpRefusal> check_head() const;
  std::optional<HttpRefusal> check_fields() const;

  void drop_trailer();

  const size_t max_body_;
  std::optional<Parser> parser_;
  std::vector<const HttpMessage::value_type*> fields_;  // of the head, where chunks follow
  size_t head_ = 0;
  size_t lines_ = 0, counted_ = 0;  // of the head; of the bytes that were left, those in lines_
  size_t scanned_ = 0;              // bytes of the head that were left, without a bare line feed
  HttpRefusal refusal_;
};

// The path and query of a request's target, without the scheme and host of an absolute one.
std::string_view path_of(const HttpMessage& message);

}  // namespace fermata::serve
