#include <charconv>
#include <memory>
#include <string>
#include <utility>

#include "base/status.h"
#include "serve/compression.h"
#include "serve/http_front_end.h"
#include "serve/json_reply.h"
#include "serve/json_request.h"
#include "serve/json_text.h"
#include "serve/status_map.h"

namespace fermata::serve {
namespace {

constexpr std::string_view kHeaderLength = "Inference-Header-Content-Length";
constexpr size_t kCompressedFrom = 1024;  // below, compressing costs more than it saves

absl::StatusOr<std::optional<size_t>> read_header_length(const HttpExchange& exchange) {
  const std::string_view text = exchange.header(kHeaderLength);
  if (text.empty()) return std::nullopt;
  size_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size()) {
    return invalid("{} is \"{}\", expected a number of bytes", kHeaderLength, text.substr(0, 40));
  }
  return value;
}

absl::StatusOr<InferBody> read_body(const HttpExchange& exchange, size_t limit) {
  InferBody body{exchange.body(), {}, exchange.owner()};
  ASSIGN_OR_RETURN(const Encoding encoding,
                   parse_content_encoding(exchange.header("Content-Encoding")));
  if (encoding != Encoding::kIdentity) {
    ASSIGN_OR_RETURN(std::string plain, decompress(body.bytes, encoding, limit));
    auto owner = std::make_shared<std::string>(std::move(plain));
    body.bytes = *owner;
    body.owner = std::move(owner);
  }
  ASSIGN_OR_RETURN(body.json_length, read_header_length(exchange));
  return body;
}

HttpResponse to_response(HttpReply reply, Encoding encoding) {
  HttpResponse response;
  if (reply.json_length) {
    response.content_type = "application/octet-stream";
    response.headers.emplace_back(kHeaderLength, std::to_string(*reply.json_length));
  }
  if (encoding == Encoding::kIdentity || reply.size() < kCompressedFrom) {
    response.body = std::move(reply.text);
    response.tail = std::move(reply.tail);
    return response;
  }
  std::vector<std::string_view> pieces = {reply.text};
  for (const Payload& payload : reply.tail) {
    pieces.emplace_back(reinterpret_cast<const char*>(payload.bytes.data()), payload.bytes.size());
  }
  response.body = compress(pieces, encoding);
  response.headers.emplace_back("Content-Encoding", name(encoding));
  return response;
}

}  // namespace

// What is kept of a request until its reply.
struct HttpFrontEnd::Infer {
  HttpExchange exchange;
  ReplyWishes wishes;
  Encoding encoding = Encoding::kIdentity;
};

absl::StatusOr<InferCall> HttpFrontEnd::decode(const HttpExchange& exchange,
                                               const HttpRoute& route) {
  ASSIGN_OR_RETURN(const InferBody body, read_body(exchange, max_body_bytes_));
  if (body.json_length != size_t{0}) return decode_json_infer(body, regions_);
  ASSIGN_OR_RETURN(const auto variant, engine_.catalog()->find(route.model, route.version));
  return decode_raw_infer(body, *variant);
}

absl::Status HttpFrontEnd::prepare(const HttpExchange& exchange, const HttpRoute& route,
                                   Infer& infer, engine::InferRequest& request) {
  const Time arrival = engine_.now();
  ASSIGN_OR_RETURN(InferCall call, decode(exchange, route));
  infer.wishes = std::move(call.wishes);
  infer.encoding = choose_encoding(exchange.header("Accept-Encoding"));
  if (infer.wishes.classifies()) {
    ASSIGN_OR_RETURN(const auto variant, engine_.catalog()->find(route.model, route.version));
    infer.wishes.leading_batch = variant->signature.batches;
  }
  request = std::move(call.request);
  request.service = route.model;
  request.version = route.version;
  request.arrival = arrival;
  return absl::OkStatus();
}

void HttpFrontEnd::infer(HttpExchange exchange, const HttpRoute& route) {
  counters_.begin();
  const uint64_t connection = exchange.connection();
  auto infer = std::make_unique<Infer>(Infer{std::move(exchange), {}});
  engine::InferRequest request;
  if (const absl::Status bad = prepare(infer->exchange, route, *infer, request); !bad.ok()) {
    counters_.reject();
    infer->exchange.respond(error_response(bad));
    return counters_.end();
  }
  const JobId job = engine_.submit(
      std::move(request), [this, infer = std::move(infer)](engine::ReplyPart part) mutable {
        answer(*infer, std::move(part));
        infer.reset();
        counters_.end();
      });
  if (!jobs_.add(connection, job)) engine_.cancel(job);
}

void HttpFrontEnd::answer(Infer& infer, engine::ReplyPart part) {
  if (!part.status.ok()) return infer.exchange.respond(error_response(part.status));
  auto reply = encode_json_reply(std::move(part), infer.wishes, regions_);
  if (!reply.ok()) return infer.exchange.respond(error_response(reply.status()));
  infer.exchange.respond(to_response(*std::move(reply), infer.encoding));
}

void HttpFrontEnd::closed(uint64_t connection) {
  for (const JobId job : jobs_.close(connection)) engine_.cancel(job);
}

HttpResponse error_response(const absl::Status& status) {
  HttpResponse response;
  response.status = http_status(status.code());
  response.body = error_body(message(status));
  return response;
}

}  // namespace fermata::serve
