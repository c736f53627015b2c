#include "serve/http/http_connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/write.hpp>
#include <utility>

#include "cluster/wire/machine.h"
#include "serve/json/json_text.h"

namespace fermata::serve {
namespace {

namespace net = boost::asio;
namespace http = boost::beast::http;
using Failure = boost::system::error_code;

constexpr size_t kReadSize = 16 * 1024;  // at most, at a time; of a body kBodyReadSize
constexpr size_t kRequestsUnderWay = 2;
constexpr std::string_view kTurnedAway =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: 51\r\n"
    "Connection: close\r\nRetry-After: 1\r\n\r\n"
    R"({"error":"too many connections, try again shortly"})";
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
constexpr std::string_view kHeadEnds = "\r\n", kHeadEndsLast = "Connection: close\r\n\r\n";
constexpr std::string_view kHeadEndsKept =
    "Connection: keep-alive\r\n\r\n";  // HTTP/1.0 asks for it

std::string_view reason(uint16_t status) {
  if (status == 499) return "Client Closed Request";
  const auto known = http::obsolete_reason(http::int_to_status(status));
  return {known.data(), known.size()};
}

size_t size_of(const HttpResponse& response) {
  size_t size = response.body.size();
  for (const Payload& payload : response.tail) size += payload.bytes.size();
  return size;
}

// The head of a reply, but for its end.
std::string head_of(const HttpResponse& response) {
  std::string head =
      fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n", response.status,
                  reason(response.status), response.content_type, size_of(response));
  for (const auto& [name, value] : response.headers) head += fmt::format("{}: {}\r\n", name, value);
  return head;
}

Client client_of(const HttpConnection::Socket& socket) {
  Failure failed;  // it is gone already
  return {new_connection_number(), cluster::machine_of(socket.remote_endpoint(failed))};
}

}  // namespace

HttpMethod HttpRequestState::method() const {
  switch (message.method()) {
    case http::verb::get:
    case http::verb::head:
      return HttpMethod::kGet;
    case http::verb::post:
      return HttpMethod::kPost;
    default:
      return HttpMethod::kOther;
  }
}

HttpConnection::HttpConnection(Socket socket, HttpShard& shard)
    : socket_(std::move(socket)),
      shard_(shard),
      client_(client_of(socket_)),
      address_(std::in_place, shard.addresses, client_.address),
      budget_(std::make_shared<ByteBudget>(shard.options.connection_bytes, shard.options.budget)),
      parser_(shard.options.max_body_bytes),
      opened_(std::chrono::steady_clock::now()),
      since_(opened_) {}

void HttpConnection::start() {
  place_ = shard_.open.insert(shard_.open.end(), shared_from_this());
  shard_.count.fetch_add(1, std::memory_order_relaxed);
  shard_.handler.opened(client_.connection);
  proceed();
}

void HttpConnection::turn_away() {
  Failure ignored;
  socket_.non_blocking(true, ignored);
  socket_.send(net::buffer(kTurnedAway.data(), kTurnedAway.size()), 0, ignored);
}

void HttpConnection::close() {
  if (std::exchange(closed_, true)) return;
  Failure ignored;
  socket_.close(ignored);
  slots_.clear();
  incoming_ = {};
  if (web_ != nullptr) web_->closed();
  shard_.count.fetch_sub(1, std::memory_order_relaxed);
  shard_.handler.closed(client_.connection);
  const auto alive = std::move(*place_);
  shard_.open.erase(place_);
  address_.reset();
}

bool HttpConnection::idle() const {
  return web_ != nullptr ? web_->idle() : slots_.empty() && !writing_ && incoming_.empty();
}

void HttpConnection::touch(Moment now) {
  since_ = now;
  shard_.open.splice(shard_.open.end(), shard_.open, place_);
}

void HttpConnection::finish_when_idle() {
  if (web_ != nullptr) return web_->drain();
  if (idle() && !parser_.inside() && overdue(std::chrono::steady_clock::now())) close();
}

// Takes requests out of what has been read, then asks for more.
void HttpConnection::proceed() {
  if (closed_ || waiting_ || std::exchange(proceeding_, true)) return;
  while (!closed_ && !deaf_ && slots_.size() < kRequestsUnderWay && buffer_.size() > 0) {
    const auto data = buffer_.cdata();
    const bool inside = parser_.inside();
    size_t used = 0;
    const auto step = parser_.feed({static_cast<const char*>(data.data()), data.size()}, used);
    buffer_.consume(used);
    if (!inside && parser_.inside()) touch(heard_);
    if (step == HttpParser::Step::kBad) {
      refuse(parser_.refusal().status, parser_.refusal().says);
    } else if (step == HttpParser::Step::kWhole) {
      dispatch();
    } else if (step == HttpParser::Step::kHead) {
      if (!begin_body()) break;
    } else {
      if (!incoming_.empty()) hold_body();
      break;
    }
  }
  proceeding_ = false;
  if (closed_ || waiting_) return;
  if (!sent_all_ && (deaf_ ? waits_for_last_reply() : slots_.size() < kRequestsUnderWay)) read();
  if (sent_all_ && slots_.empty() && !writing_) end();
}

void HttpConnection::dispatch() {
  auto request = std::make_shared<HttpRequestState>();
  request->message = parser_.take();
  request->connection = shared_from_this();
  request->number = first_ + slots_.size();
  request->keep_alive = request->message.keep_alive();
  request->is_head = request->message.method() == http::verb::head;
  request->held = std::exchange(incoming_, {});
  speaks_1_1_ = request->message.version() > 10;
  continue_ = false;
  if (buffer_.size() == 0 && buffer_.capacity() > 2 * kReadSize) buffer_ = {};
  deaf_ = !request->keep_alive;
  slots_.emplace_back();
  shard_.handler.request(HttpExchange(std::move(request)));
}

void HttpConnection::refuse(uint16_t status, std::string_view says) {
  deaf_ = true;
  incoming_ = {};
  parser_.drop();
  HttpResponse response;
  response.status = status;
  response.body = error_body(says);
  slots_.emplace_back();
  complete(first_ + slots_.size() - 1, make_slot(std::move(response), true, false));
}

HttpConnection::Slot HttpConnection::make_slot(HttpResponse response, bool last,
                                               bool without_body) const {
  Slot slot;
  slot.ready = true;
  slot.last = last;
  slot.held = HeldBytes(budget_);
  if (!slot.held.grow_to(size_of(response))) {
    response = HttpResponse();
    response.status = 429;
    response.body =
        error_body("memory limit reached (listen.memory_mb): no room for the reply; retry later");
  }
  slot.head = head_of(response);
  if (without_body) {
    response.body.clear();
    response.tail.clear();
  }
  slot.response = std::move(response);
  return slot;
}

void HttpConnection::respond(const HttpRequestState& request, HttpResponse response) {
  net::dispatch(shard_.io, [self = shared_from_this(), number = request.number,
                            slot = make_slot(std::move(response), !request.keep_alive,
                                             request.is_head)]() mutable {
    self->complete(number, std::move(slot));
  });
}

void HttpConnection::complete(uint64_t number, Slot slot) {
  if (closed_) return;
  deaf_ = deaf_ || slot.last;
  slots_[number - first_] = std::move(slot);
  write();
}

// Writes every reply whose turn it is at once.
void HttpConnection::write() {
  if (writing_ || closed_) return;
  while (!slots_.empty() && slots_.front().ready) {
    written_.push_back(std::move(slots_.front()));
    slots_.pop_front();
    ++first_;
  }
  std::vector<net::const_buffer> pieces;
  const auto add = [&pieces](const auto& bytes) {
    if (bytes.size() > 0) pieces.emplace_back(bytes.data(), bytes.size());
  };
  for (Slot& slot : written_) {
    const bool final = &slot == &written_.back() && slots_.empty();
    slot.last = slot.last || (final && shard_.draining && !parser_.inside());
    add(slot.head);
    add(slot.last ? kHeadEndsLast : speaks_1_1_ ? kHeadEnds : kHeadEndsKept);
    add(slot.response.body);
    for (const Payload& payload : slot.response.tail) add(payload.bytes);
  }
  if (continue_ && slots_.empty()) {
    add(kContinue);
    continue_ = false;
  }
  if (pieces.empty()) return;
  writing_ = true;
  since_ = std::chrono::steady_clock::now();
  writing_bytes_ = net::buffer_size(pieces);
  outgoing_pace_.start(since_);
  // A client that reads slowly is not one that does not read.
  auto progress = [this, taken = size_t{0}](const Failure& failed, size_t bytes) mutable {
    if (bytes > taken) {
      since_ = std::chrono::steady_clock::now();
      outgoing_pace_.add(bytes - taken, since_);
    }
    taken = bytes;
    return net::transfer_all()(failed, bytes);
  };
  net::async_write(socket_, pieces, progress,
                   [self = shared_from_this()](const Failure& failed, size_t) {
                     self->on_written(bool(failed));
                   });
}

void HttpConnection::on_written(bool failed) {
  writing_ = false;
  if (closed_) return;
  const bool last = !written_.empty() && written_.back().last;
  served_ = served_ || !written_.empty();
  written_.clear();
  if (failed) return close();
  heard_ = since_;
  if (web_ != nullptr) return web_->accept(std::move(upgrade_));
  if (last) return end();
  write();
  proceed();
}

// Our last byte is out. What the client may still send is read, so that the reply reaches it.
void HttpConnection::end() {
  if (std::exchange(closing_, true)) return;
  deaf_ = true;
  since_ = std::chrono::steady_clock::now();
  Failure ignored;
  socket_.shutdown(net::socket_base::shutdown_send, ignored);
  buffer_.clear();
  if (sent_all_ || (shard_.draining && socket_.available(ignored) == 0)) return close();
  read();
}

// No more requests are read, but the end of a client that does not wait is noticed.
bool HttpConnection::waits_for_last_reply() const {
  return web_ == nullptr && !slots_.empty() && buffer_.size() == 0;
}

void HttpConnection::read() {
  if (std::exchange(reading_, true)) return;
  socket_.async_read_some(buffer_.prepare(incoming_.empty() ? kReadSize : kBodyReadSize),
                          [self = shared_from_this()](const Failure& failed, size_t bytes) {
                            self->on_read(bytes, failed);
                          });
}

void HttpConnection::on_read(size_t bytes, const Failure& failed) {
  reading_ = false;
  if (closed_) return;
  if (closing_) return failed ? close() : read();
  if (failed && failed != net::error::eof) return close();
  heard_ = std::chrono::steady_clock::now();
  incoming_pace_.add(bytes, heard_);
  if (failed) {
    sent_all_ = true;
    if (slots_.empty() && !writing_) return close();
    watch_a_client_that_sends_no_more();
  } else {
    buffer_.commit(bytes);
  }
  proceed();
}

// A client that has closed cannot be told from one that waits for its reply, until something is
// sent: a machine answers that for a socket that is gone. 100 (Continue) may always be sent to
// who speaks HTTP/1.1.
void HttpConnection::watch_a_client_that_sends_no_more() {
  if (!speaks_1_1_ || writing_) return;
  Failure failed;
  socket_.non_blocking(true, failed);
  socket_.send(net::buffer(kContinue.data(), kContinue.size()), 0, failed);
  if (failed) return close();
  socket_.async_wait(Socket::wait_error,
                     [self = shared_from_this()](const Failure&) { self->close(); });
}

}  // namespace fermata::serve
