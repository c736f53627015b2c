#include <algorithm>
#include <charconv>
#include <memory>
#include <string>
#include <utility>

#include "base/status.h"
#include "serve/call/long_work.h"
#include "serve/call/memory.h"
#include "serve/call/status_map.h"
#include "serve/call/stream_parameters.h"
#include "serve/config/reach.h"
#include "serve/http/compressed.h"
#include "serve/http/http_front_end.h"
#include "serve/http/http_pages.h"
#include "serve/json/json_reply.h"
#include "serve/json/json_request.h"
#include "serve/json/json_text.h"
#include "serve/json/json_weight.h"
#include "serve/net/compression.h"

namespace fermata::serve {
namespace {

constexpr std::string_view kHeaderLength = "Inference-Header-Content-Length";

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

Background::Price price_of(const HttpExchange& exchange, uint64_t bytes) {
  const Client& client = exchange.client();
  return {client.connection, client.address, bytes};
}

// Whether the io thread would have to read many bytes for it.
bool is_long(const HttpExchange& exchange) {
  if (exchange.body().size() < kLong) return false;
  const auto json = read_header_length(exchange);
  return json.ok() && json->value_or(kLong) >= kLong;
}

bool is_packed(const HttpExchange& exchange) {
  return !exchange.header("Content-Encoding").empty();
}

HttpResponse to_response(HttpReply reply, Encoding encoding) {
  HttpResponse response;
  if (reply.json_length) {
    response.content_type = "application/octet-stream";
    response.headers.emplace_back(kHeaderLength, std::to_string(*reply.json_length));
  }
  response.body = std::move(reply.text);
  response.tail = std::move(reply.tail);
  compress_response(response, encoding);
  return response;
}

}  // namespace

// What is kept of a request until its reply.
struct HttpFrontEnd::Infer {
  HttpExchange exchange;
  HttpRoute route;
  Time arrival;
  ReplyWishes wishes = {};
  Encoding encoding = Encoding::kIdentity;  // of the reply
  // Of a compressed body, until it is whole; then what it says.
  std::unique_ptr<Unpacking> unpacking = nullptr;
  std::shared_ptr<const std::string> plain = nullptr;

  InferBody body() const {
    if (plain == nullptr) return {exchange.body(), {}, exchange.owner()};
    return {*plain, {}, plain};
  }
};

absl::StatusOr<InferCall> HttpFrontEnd::decode(Infer& infer) {
  const HttpRoute& route = infer.route;
  InferBody body = infer.body();
  ASSIGN_OR_RETURN(body.json_length, read_header_length(infer.exchange));
  if (body.json_length != size_t{0})
    return decode_json_infer(body, regions_, infer.exchange.held());
  ASSIGN_OR_RETURN(const auto variant, engine_.catalog()->find(route.model, route.version));
  return decode_raw_infer(body, *variant, infer.exchange.held());
}

absl::StatusOr<InferCall> HttpFrontEnd::prepare(Infer& infer) {
  auto call = decode(infer);
  if (!call.ok()) return call;
  infer.wishes = std::move(call->wishes);
  infer.encoding = choose_encoding(infer.exchange.header("Accept-Encoding"));
  if (infer.wishes.classifies()) {
    ASSIGN_OR_RETURN(infer.wishes.classifier,
                     engine_.catalog()->find(infer.route.model, infer.route.version));
  }
  call->request.service = infer.route.model;
  call->request.version = infer.route.version;
  call->request.arrival = infer.arrival;
  return call;
}

void HttpFrontEnd::request(HttpExchange exchange) {
  HttpRoute route = find_route(exchange.method(), exchange.target());
  if (route.call == HttpCall::kInfer) {
    counters_.begin();
    auto infer =
        std::make_unique<Infer>(Infer{std::move(exchange), std::move(route), engine_.now()});
    if (is_packed(infer->exchange)) return begin_unpacking(std::move(infer));
    if (!is_long(infer->exchange)) return start(std::move(infer));
    return start_later(std::move(infer));
  }
  if (route.call == HttpCall::kStream || is_admin(route.call)) {
    const absl::Status allowed =
        check_page(exchange.header("Origin"), exchange.header("Host"), trusted_);
    if (!allowed.ok()) return exchange.respond(error_response(allowed));
  }
  if (route.call == HttpCall::kStream) return open_stream(std::move(exchange), route);
  if (route.call == HttpCall::kPage) return open_page(std::move(exchange), route);
  if (is_admin(route.call) && !admin_) return exchange.respond(error_response(admin_is_off()));
  if (HttpHandler* metrics = metrics_; metrics != nullptr && route.call == HttpCall::kMetrics) {
    return metrics->request(std::move(exchange));
  }
  if (HttpHandler* live = live_; live != nullptr && route.call == HttpCall::kLive) {
    return live->request(std::move(exchange));
  }
  if (exchange.body().size() > Operations::kLongestRequest) {
    return exchange.respond(
        error_response(invalid("the body has {} bytes, expected at most {}", exchange.body().size(),
                               Operations::kLongestRequest)));
  }
  if (exchange.body().size() < kLong) {
    return answer_operation(std::move(exchange), route, operations_);
  }
  const auto price = price_of(exchange, exchange.body().size());
  auto answer = [this, exchange = std::move(exchange), route = std::move(route)]() mutable {
    HeldBytes parsing = exchange.held().beside();
    const size_t weight = document_json_weight(exchange.body());
    if (!parsing.grow_by(weight)) {
      return exchange.respond(error_response(no_memory_for(
          "parsing the JSON", exchange.held().bytes() + weight, exchange.held(), kSmaller)));
    }
    answer_operation(std::move(exchange), route, operations_);
  };
  background_.post(std::move(answer), price);
}

void HttpFrontEnd::begin_unpacking(std::unique_ptr<Infer> infer) {
  const auto encoding = parse_content_encoding(infer->exchange.header("Content-Encoding"));
  if (!encoding.ok()) return reject(*infer, encoding.status());
  if (*encoding == Encoding::kIdentity) return start_later(std::move(infer));
  infer->unpacking =
      std::make_unique<Unpacking>(infer->exchange.body(), *encoding, max_body_bytes_);
  unpack_later(std::move(infer));
}

// A step at a time, each with its price: nobody knows before what a body unpacks to.
void HttpFrontEnd::unpack_later(std::unique_ptr<Infer> infer) {
  const auto price = price_of(infer->exchange, Unpacking::kAtATime);
  auto step = [this, infer = std::move(infer)]() mutable {
    const absl::StatusOr<bool> whole = infer->unpacking->step(
        [&infer](size_t more) { return infer->exchange.held().grow_by(more); });
    if (!whole.ok()) return reject(*infer, whole.status());
    if (!*whole) return unpack_later(std::move(infer));
    infer->plain = std::make_shared<const std::string>(infer->unpacking->take());
    infer->unpacking.reset();
    if (infer->plain->size() <= Unpacking::kAtATime) return start(std::move(infer));  // it is paid
    start_later(std::move(infer));
  };
  background_.post(std::move(step), price);
}

void HttpFrontEnd::start_later(std::unique_ptr<Infer> infer) {
  const auto price = price_of(infer->exchange, infer->body().bytes.size());
  background_.post([this, infer = std::move(infer)]() mutable { start(std::move(infer)); }, price);
}

void HttpFrontEnd::open_page(HttpExchange exchange, const HttpRoute& route) {
  const std::string_view path = exchange.target().substr(0, exchange.target().find('?'));
  const std::string_view start = path.size() > 1 ? "stream.html" : "index.html";
  auto page =
      find_page(route.page.empty() ? start : route.page, exchange.header("Accept-Encoding"));
  if (!page) return exchange.respond(error_response(not_found("no page {}", route.page)));
  exchange.respond(*std::move(page));
}

void HttpFrontEnd::open_stream(HttpExchange exchange, const HttpRoute& route) {
  if (!exchange.wants_web_socket()) {
    HttpResponse response = error_response(
        invalid("{} is for WebSockets, expected Upgrade: websocket", exchange.target()));
    response.status = 426;
    response.headers.emplace_back("Upgrade", "websocket");
    return exchange.respond(std::move(response));
  }
  if (const auto found = engine_.catalog()->find(route.model, route.version); !found.ok()) {
    return exchange.respond(error_response(found.status()));
  }
  Client client = exchange.client();
  exchange.upgrade(make_web_stream(web_, std::move(client), route.model, route.version));
}

void HttpFrontEnd::start(std::unique_ptr<Infer> infer) {
  auto call = prepare(*infer);
  if (!call.ok()) return reject(*infer, call.status());
  if (call->distant.empty()) return submit(std::move(infer), std::move(call->request));
  const auto price = price_of(infer->exchange, bytes_of(*call));
  auto fetch = [this, infer = std::move(infer), call = *std::move(call)]() mutable {
    if (const absl::Status bad = regions_.fetch(call); !bad.ok()) return reject(*infer, bad);
    submit(std::move(infer), std::move(call.request));
  };
  background_.post(std::move(fetch), price);
}

void HttpFrontEnd::reject(Infer& infer, const absl::Status& bad) {
  counters_.reject();
  infer.exchange.respond(error_response(bad));
  counters_.end();
}

void HttpFrontEnd::submit(std::unique_ptr<Infer> infer, engine::InferRequest&& request) {
  const uint64_t connection = infer->exchange.connection();
  const bool has_client = request.frame != nullptr;
  set_client(infer->exchange.client(), request);
  const JobId job = engine_.submit(
      std::move(request), [this, infer = std::move(infer)](engine::ReplyPart part) mutable {
        const uint64_t work = work_of(part, infer->wishes);
        if (work < kLong) return end(std::move(infer), std::move(part));
        const auto price = price_of(infer->exchange, work);
        auto encode = [this, infer = std::move(infer), part = std::move(part)]() mutable {
          end(std::move(infer), std::move(part));
        };
        background_.post(std::move(encode), price);
      });
  if (jobs_.add(connection, job)) return;
  engine_.cancel(job);
  if (has_client) engine_.close_streams(connection);
}

void HttpFrontEnd::end(std::unique_ptr<Infer> infer, engine::ReplyPart&& part) {
  answer(*infer, std::move(part));
  infer.reset();
  counters_.end();
}

void HttpFrontEnd::answer(Infer& infer, engine::ReplyPart&& part) {
  if (!part.status.ok()) {
    HttpResponse response;
    response.status = http_status(part.status.code());
    response.body = encode_json_error(part, infer.wishes);
    return infer.exchange.respond(std::move(response));
  }
  auto reply = encode_json_reply(std::move(part), infer.wishes, regions_, infer.exchange.held());
  if (!reply.ok()) return infer.exchange.respond(error_response(reply.status()));
  infer.exchange.respond(to_response(*std::move(reply), infer.encoding));
}

void HttpFrontEnd::closed(uint64_t connection) {
  for (const JobId job : jobs_.close(connection)) engine_.cancel(job);
  engine_.close_streams(connection);
}

HttpResponse error_response(const absl::Status& status) {
  HttpResponse response;
  response.status = http_status(status.code());
  response.body = error_body(client_message(status));
  return response;
}

}  // namespace fermata::serve
