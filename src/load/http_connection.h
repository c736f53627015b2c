#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "load/http_response.h"

namespace fermata::load {

namespace asio = boost::asio;
using Failure = boost::system::error_code;
using Endpoints = asio::ip::tcp::resolver::results_type;

// A kept-alive HTTP/1.1 client connection: one request at a time. Connects when
// first asked. All calls come from the thread that runs the io_context.
class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    // The connection may be asked again, from here on.
    virtual void answered(HttpConnection& connection, HttpResponse response) = 0;
    // It is of no more use; what it was asked, if anything, has failed.
    virtual void closed(HttpConnection& connection, absl::Status why) = 0;
  };

  HttpConnection(asio::io_context& io, Endpoints endpoints, Owner& owner);

  // `request` stays alive until it is answered or closed.
  void ask(std::string_view request);
  // The owner hears no more of it.
  void close();

 private:
  void connect();
  void write();
  void read();
  void received(size_t bytes);
  void fail(absl::Status why);
  // What a handler does when its operation ended with an error.
  bool failed(const Failure& error, std::string_view doing);

  asio::ip::tcp::socket socket_;
  Endpoints endpoints_;
  Owner* owner_;  // null once closed
  std::string_view request_;
  HttpResponseParser parser_;
  bool connected_ = false, busy_ = false;
  std::array<char, 16384> buffer_;
};

}  // namespace fermata::load
