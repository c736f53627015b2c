#include "load/http_connection.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/write.hpp>
#include <utility>

#include "base/check.h"
#include "base/status.h"

namespace fermata::load {

HttpConnection::HttpConnection(asio::io_context& io, Endpoints endpoints, Owner& owner)
    : socket_(io), endpoints_(std::move(endpoints)), owner_(&owner) {}

void HttpConnection::ask(std::string_view request) {
  FERMATA_CHECK(!busy_ && owner_ != nullptr);
  busy_ = true;
  request_ = request;
  connected_ ? write() : connect();
}

void HttpConnection::close() {
  owner_ = nullptr;
  Failure ignored;
  socket_.close(ignored);
}

void HttpConnection::connect() {
  asio::async_connect(socket_, endpoints_,
                      [self = shared_from_this()](const Failure& error, const auto&) {
                        if (self->failed(error, "connecting")) return;
                        Failure ignored;
                        self->socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
                        self->connected_ = true;
                        self->read();
                        self->write();
                      });
}

void HttpConnection::write() {
  asio::async_write(socket_, asio::buffer(request_.data(), request_.size()),
                    [self = shared_from_this()](const Failure& error, size_t) {
                      self->failed(error, "sending");
                    });
}

// A read is always pending, so that a server that closes an idle connection is
// noticed before the next request goes there.
void HttpConnection::read() {
  socket_.async_read_some(asio::buffer(buffer_),
                          [self = shared_from_this()](const Failure& error, size_t bytes) {
                            if (error == asio::error::eof && self->busy_ &&
                                self->owner_ != nullptr && self->parser_.feed_end()) {
                              HttpResponse response = self->parser_.take();
                              response.keep_alive = false;
                              self->busy_ = false;
                              return self->owner_->answered(*self, std::move(response));
                            }
                            if (!self->failed(error, "waiting for a response"))
                              self->received(bytes);
                          });
}

void HttpConnection::received(size_t bytes) {
  if (!busy_) return fail(internal("the server sent {} bytes unasked", bytes));
  absl::StatusOr<bool> complete = parser_.feed({buffer_.data(), bytes});
  if (!complete.ok()) return fail(complete.status());
  if (*complete) {
    busy_ = false;
    owner_->answered(*this, parser_.take());
  }
  if (owner_ != nullptr) read();
}

void HttpConnection::fail(absl::Status why) {
  Owner* owner = std::exchange(owner_, nullptr);
  Failure ignored;
  socket_.close(ignored);
  owner->closed(*this, std::move(why));
}

bool HttpConnection::failed(const Failure& error, std::string_view doing) {
  if (owner_ == nullptr) return true;
  if (!error) return false;
  fail(fermata::error(absl::StatusCode::kUnavailable, "{}: {}", doing, error.message()));
  return true;
}

}  // namespace fermata::load
