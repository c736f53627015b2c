#include "load/http_response.h"

#include <boost/asio/buffer.hpp>
#include <charconv>
#include <cstdint>
#include <utility>

#include "base/http_chunks.h"
#include "base/status.h"

namespace fermata::load {
namespace {

namespace http = boost::beast::http;

// The most that a response's body may have. The parser takes memory for what
// `Content-Length` says before the body is there.
constexpr size_t kMaxBodyBytes = size_t{1} << 30;

}  // namespace

absl::StatusOr<bool> HttpResponseParser::feed(std::string_view bytes) {
  if (!parser_) {
    parser_.emplace();
    parser_->body_limit(kMaxBodyBytes);
  }
  waiting_ += bytes;
  size_t used = 0;
  while (used < waiting_.size() && !parser_->is_done()) {
    const bool in_chunks = parser_->is_header_done() && parser_->chunked();
    if (in_chunks && waiting_.size() - used < kShortestChunks) break;
    boost::system::error_code failed;
    used += parser_->put(boost::asio::buffer(waiting_) + used, failed);
    if (failed == http::error::need_more) break;
    parser_->eager(parser_->is_header_done());  // an eager parser forgets a header's error
    if (failed) return internal("the server's response is not HTTP/1.1: {}", failed.message());
  }
  waiting_.erase(0, used);
  if (!parser_->is_header_done()) return false;
  RETURN_IF_ERROR(read_json_length());
  if (!parser_->is_done()) return false;
  if (!waiting_.empty()) {
    return internal("the server sent {} bytes beyond its response", waiting_.size());
  }
  return true;
}

bool HttpResponseParser::feed_end() {
  if (!parser_ || !parser_->got_some() || !waiting_.empty()) return false;
  boost::system::error_code failed;
  if (!parser_->is_done()) parser_->put_eof(failed);
  return !failed && parser_->is_done();
}

absl::Status HttpResponseParser::read_json_length() {
  constexpr const char* kJsonLength = "Inference-Header-Content-Length";
  const auto header = parser_->get().find(kJsonLength);
  if (header == parser_->get().end()) return absl::OkStatus();
  const std::string_view text(header->value().data(), header->value().size());
  size_t length = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), length);
  if (problem != std::errc() || end != text.data() + text.size()) {
    return internal("the server's response has {}: {}, expected a number", kJsonLength, text);
  }
  json_bytes_ = length;
  return absl::OkStatus();
}

HttpResponse HttpResponseParser::take() {
  auto message = parser_->release();
  parser_.reset();
  return {static_cast<int>(message.result_int()), std::exchange(json_bytes_, std::nullopt),
          std::move(message.body()), message.keep_alive()};
}

}  // namespace fermata::load
