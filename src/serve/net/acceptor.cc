#include "serve/net/acceptor.h"

#include <fcntl.h>

#include <algorithm>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <utility>

#include "base/status.h"

namespace fermata::serve {
namespace {

namespace net = boost::asio;
using net::ip::tcp;
using Failure = boost::system::error_code;

constexpr std::chrono::milliseconds kPause(20);

bool is_exhaustion(const Failure& failed) {
  return failed == boost::system::errc::too_many_files_open ||
         failed == boost::system::errc::too_many_files_open_in_system ||
         failed == boost::system::errc::no_buffer_space ||
         failed == boost::system::errc::not_enough_memory;
}

std::string without_brackets(const std::string& host) {
  const bool has = host.size() > 2 && host.front() == '[' && host.back() == ']';
  return has ? host.substr(1, host.size() - 2) : host;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Acceptor>> Acceptor::open(net::io_context& io,
                                                         const std::string& host, uint16_t port) {
  Failure failed;
  const auto found = tcp::resolver(io).resolve(without_brackets(host), std::to_string(port),
                                               tcp::resolver::passive, failed);
  std::vector<tcp::endpoint> where;
  for (const auto& entry : found) where.push_back(entry.endpoint());
  std::stable_sort(where.begin(), where.end(), [](const auto& a, const auto& b) {
    return a.address().is_v4() && b.address().is_v6();
  });
  auto acceptor = std::unique_ptr<Acceptor>(new Acceptor(io));
  absl::Status bad = failed ? error(absl::StatusCode::kUnavailable, "{}", failed.message())
                            : acceptor->listen(where);
  if (!bad.ok()) {
    return error(absl::StatusCode::kUnavailable, "cannot listen on {}:{}: {}", host, port,
                 message(bad));
  }
  return acceptor;
}

absl::Status Acceptor::listen(const std::vector<tcp::endpoint>& where) {
  Failure last;
  for (tcp::endpoint endpoint : where) {
    if (port_ != 0) endpoint.port(port_);
    auto listener = std::make_unique<Listener>(io_);
    Failure failed;
    listener->open(endpoint.protocol(), failed);
    if (!failed) listener->set_option(tcp::acceptor::reuse_address(true), failed);
    if (!failed && endpoint.address().is_v6()) {
      listener->set_option(net::ip::v6_only(where.size() > 1), failed);
    }
    if (!failed) listener->bind(endpoint, failed);
    if (!failed) listener->listen(net::socket_base::max_listen_connections, failed);
    if (failed) {
      last = failed;  // a machine may have one kind of address only
      continue;
    }
    fcntl(listener->native_handle(), F_SETFD, FD_CLOEXEC);
    port_ = listener->local_endpoint().port();
    listeners_.push_back(std::move(listener));
  }
  const bool taken = last == boost::system::errc::address_in_use;
  if (!listeners_.empty() && !taken) return absl::OkStatus();
  return error(absl::StatusCode::kUnavailable, "{}", last.message());
}

void Acceptor::start(Events events) {
  events_ = std::move(events);
  for (const auto& listener : listeners_) accept(*listener);
}

void Acceptor::close() {
  for (const auto& listener : listeners_) {
    Failure failed;
    listener->non_blocking(true, failed);
    // No more than can wait in one: others may connect faster than they are accepted.
    const int most = net::socket_base::max_listen_connections;
    for (int i = 0; i < most && !failed && events_.home != nullptr; ++i) {
      Socket socket(events_.home());
      listener->accept(socket, failed);
      if (!failed) take(std::move(socket));
    }
    listener->close(failed);
  }
}

void Acceptor::take(Socket socket) {
  Failure ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
  events_.accepted(std::move(socket));
}

void Acceptor::accept(Listener& listener) {
  listener.async_accept(events_.home(), [this, &listener](const Failure& failed, Socket socket) {
    if (!failed) take(std::move(socket));  // also one that came just before close()
    if (!listener.is_open()) return;
    if (is_exhaustion(failed)) {
      events_.exhausted();
      return resume(listener);
    }
    accept(listener);
  });
}

void Acceptor::resume(Listener& listener) {
  auto pause = std::make_shared<net::steady_timer>(io_, kPause);
  pause->async_wait([this, &listener, pause](const Failure&) {
    if (listener.is_open()) accept(listener);
  });
}

}  // namespace fermata::serve
