// Which clients take too long, and what bodies take of the memory.
#include <fmt/format.h>

#include <algorithm>

#include "serve/http/http_connection.h"

namespace fermata::serve {
namespace {

constexpr std::chrono::seconds kHeadLimit(60);     // from the first byte of a request to its head
constexpr std::chrono::minutes kTransferLimit(5);  // for a body, a reply, and between requests
constexpr std::chrono::seconds kLingerLimit(2);
constexpr std::chrono::seconds kStallLimit(1);  // of half a body whose memory is wanted
// From a connection's last reply until the server that stops takes it for one without a request:
// one may be on its way.
constexpr std::chrono::seconds kQuietLimit(1);
constexpr size_t kOverhead = 1024;  // what a request takes beside its body, unless its head is long

}  // namespace

bool HttpConnection::overdue(Moment now) const {
  const bool waits_for_rest = now < shard_.wait_for_rest_until;
  if (web_ != nullptr && web_->idle() && !waits_for_rest) return true;
  if (web_ != nullptr) return web_->waits_for_client() && now - since_ > kTransferLimit;
  if (closing_) return now - since_ > kLingerLimit;
  if (writing_) return now - since_ > kTransferLimit;
  if (!slots_.empty() || waiting_) return false;  // it waits for us
  if (parser_.inside() && !waits_for_rest) return true;
  if (shard_.draining && !parser_.inside()) {
    boost::system::error_code ignored;
    return now - since_ > kQuietLimit && socket_.available(ignored) == 0;
  }
  const bool in_head = parser_.inside() && incoming_.empty();
  return now - since_ > (in_head ? std::chrono::seconds(kHeadLimit) : kTransferLimit);
}

bool HttpConnection::takes_long_to_read(Moment now) const {
  const bool writes = web_ != nullptr ? web_->waits_for_client() : writing_;
  return writes && now - since_ > WhoGivesWay::kLong;
}

WhoGivesWay::Connection HttpConnection::in_the_way(Moment now) const {
  const double slow = slowness(now);
  return {way_it_is(now, slow), *address_, opened_, since_, slow};
}

InTheWay HttpConnection::way_it_is(Moment now, double slowness) const {
  const bool is_long = now - since_ > WhoGivesWay::kLong;
  if (closing_) return InTheWay::kOver;
  const bool is_idle = idle() && (web_ == nullptr || !web_->holds());  // a message may be coming
  if (is_idle && !served_) {
    return now - opened_ < WhoGivesWay::kTimeToAsk ? InTheWay::kJustCame : InTheWay::kNeverAsked;
  }
  if (is_idle) return is_long ? InTheWay::kQuiet : InTheWay::kIdle;
  if (takes_long_to_read(now) || slowness > 0) return InTheWay::kSlow;
  const bool brings = !incoming_.empty() && !continue_ && !waiting_;
  return brings && slots_.empty() && is_long ? InTheWay::kLongUpload : InTheWay::kBusy;
}

double HttpConnection::slowness(Moment now) const {
  const std::chrono::duration<double> silent = now - heard_, unread = now - since_;
  if (web_ != nullptr) return web_->holds() && unread > HttpShard::kSlow ? unread.count() : 0;
  if (writing_) {
    const auto left = outgoing_pace_.time_for(writing_bytes_, now);
    return left > HttpShard::kSlow ? left.count() : 0;
  }
  if (incoming_.empty() || continue_ || waiting_) return 0;  // it has none, or waits for us
  const auto left = incoming_pace_.time_for(incoming_bytes_, now);
  return left > HttpShard::kSlow || silent > kStallLimit ? std::max(left, silent).count() : 0;
}

void HttpConnection::give_up() {
  if (web_ != nullptr || closing_ || writing_ || !parser_.inside() || deaf_) return close();
  if (shard_.draining) return refuse(503, "the server stops, and half a request has come");
  refuse(408, "the request did not come to its end in time");
}

void HttpConnection::give_way() {
  if (web_ != nullptr || closing_ || writing_ || deaf_) return close();
  refuse(408, fmt::format("memory is short (listen.memory_mb), and this request came too slowly: "
                          "{} bytes of it have come",
                          parser_.received()));
}

// Memory for what has come of the body and may come with the next bytes: what is only announced
// takes none from others.
bool HttpConnection::hold_body() {
  const uint64_t bytes = std::max(kOverhead, 2 * parser_.head()) + parser_.received() +
                         std::min(parser_.missing(), kBodyReadSize);
  while (!incoming_.grow_to(bytes)) {
    const bool is_own_share = budget_->used() - incoming_bytes_ + bytes > budget_->limit();
    if (!is_own_share && shard_.end_slowest()) continue;
    waiting_ = !is_own_share && !waited_ && shard_.end_slowest_elsewhere(weak_from_this());
    if (!waiting_) refuse(429, kNoMemoryForBody);
    return false;
  }
  incoming_bytes_ = std::max(incoming_bytes_, bytes);
  waited_ = false;
  return true;
}

bool HttpConnection::begin_body() {
  incoming_ = HeldBytes(budget_);
  incoming_bytes_ = 0;
  incoming_pace_.start(heard_);
  if (!hold_body()) return false;
  ask_for_body();
  return true;
}

void HttpConnection::ask_for_body() {
  if (!parser_.expects_continue() || buffer_.size() > 0 || parser_.received() > 0) return;
  continue_ = true;
  write();
}

void HttpConnection::go_on(bool ended) {
  waiting_ = false;
  if (closed_ || deaf_) return;
  waited_ = !ended;
  heard_ = std::chrono::steady_clock::now();  // it could not be heard
  if (hold_body()) ask_for_body();
  proceed();
}

}  // namespace fermata::serve
