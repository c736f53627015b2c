#include "serve/http/event_stream.h"

#include <boost/asio/dispatch.hpp>
#include <boost/asio/write.hpp>
#include <utility>

#include "serve/http/http_connection.h"

namespace fermata::serve {
namespace {

namespace net = boost::asio;
using Failed = boost::system::error_code;

// Without a length, so it ends with the connection. Proxies are asked to pass it on as it comes.
constexpr std::string_view kEventsHead =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n"
    "X-Accel-Buffering: no\r\nConnection: close\r\n\r\n";

}  // namespace

EventStream::EventStream(HttpConnection& connection, Socket& socket,
                         std::shared_ptr<EventListener> listener)
    : connection_(connection), socket_(socket), listener_(std::move(listener)) {}

void EventStream::accept(HttpMessage) {
  if (listener_ == nullptr) return;
  open_ = true;
  enqueue(std::make_shared<const std::string>(kEventsHead));
  listener_->opened(std::shared_ptr<EventStream>(connection_.shared_from_this(), this));
  read();
}

void EventStream::drain() { connection_.close(); }

void EventStream::closed() {
  if (const auto listener = std::exchange(listener_, nullptr); listener != nullptr && open_) {
    listener->closed();
  }
  queue_.clear();
}

void EventStream::send(std::shared_ptr<const std::string> events) {
  net::dispatch(socket_.get_executor(),
                [this, alive = connection_.shared_from_this(),
                 events = std::move(events)]() mutable { enqueue(std::move(events)); });
}

void EventStream::enqueue(std::shared_ptr<const std::string> events) {
  if (listener_ == nullptr) return;
  if (queued_ > 0 && queued_ + events->size() > kMostQueued) return;
  queued_ += events->size();
  queue_.push_back(std::move(events));
  write();
}

void EventStream::write() {
  if (writing_ || queue_.empty()) return;
  writing_ = true;
  connection_.touch();
  auto events = std::move(queue_.front());
  queue_.pop_front();
  const auto buffer = net::buffer(*events);
  net::async_write(socket_, buffer,
                   [this, alive = connection_.shared_from_this(), events = std::move(events)](
                       const Failed& failed, size_t) {
                     writing_ = false;
                     queued_ -= events->size();
                     if (listener_ == nullptr) return;
                     if (failed) return connection_.close();
                     write();
                   });
}

// A client has nothing to say; that it has gone is noticed.
void EventStream::read() {
  socket_.async_read_some(net::buffer(ignored_), [this, alive = connection_.shared_from_this()](
                                                     const Failed& failed, size_t) {
    if (listener_ == nullptr) return;
    if (failed) return connection_.close();
    read();
  });
}

}  // namespace fermata::serve
