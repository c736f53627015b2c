#include "cluster/wire/tcp_channel.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "base/status.h"
#include "cluster/wire/machine.h"

namespace fermata::cluster {
namespace {

namespace net = boost::asio;
namespace ssl = boost::asio::ssl;
using net::ip::tcp;
using Fault = boost::system::error_code;

constexpr int kSendBuffer = 1 << 20;  // so that who sends a small batch does not wait
constexpr std::pair<int, int> kAliveSeconds[] = {
    {TCP_KEEPIDLE, 30}, {TCP_KEEPINTVL, 10}, {TCP_KEEPCNT, 3}};
constexpr size_t kReadAhead = 16 << 10;    // of what is received
constexpr size_t kTextAtFirst = 64 << 10;  // of a message

absl::Status at_end(const Fault& fault) {
  return error(absl::StatusCode::kUnavailable, "the connection ended: {}", fault.message());
}

// Where the sockets of this process live; only blocking calls are made.
net::io_context& io() {
  static net::io_context& io = *new net::io_context;
  return io;
}

class TcpChannel : public Channel {
 public:
  explicit TcpChannel(tcp::socket socket) : socket_(std::move(socket)) {
    Fault ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
    socket_.set_option(net::socket_base::send_buffer_size(kSendBuffer), ignored);
    // A host that is gone without a word, while nobody expects one, ends its connections.
    socket_.set_option(net::socket_base::keep_alive(true), ignored);
    for (const auto& [option, value] : kAliveSeconds) {
      ::setsockopt(socket_.native_handle(), IPPROTO_TCP, option, &value, sizeof(value));
    }
    const tcp::endpoint peer = socket_.remote_endpoint(ignored);
    if (ignored) return;
    peer_ = fmt::format("{}:{}", peer.address().to_string(), peer.port());
    machine_ = machine_of(peer);
  }

  absl::Status secure(ssl::context context, bool accepts) {
    context_.emplace(std::move(context));
    tls_.emplace(socket_, *context_);
    Fault fault;
    tls_->handshake(accepts ? ssl::stream_base::server : ssl::stream_base::client, fault);
    if (!fault) return absl::OkStatus();
    return error(absl::StatusCode::kUnauthenticated, "no TLS with {}: {}", peer_, fault.message());
  }

  absl::Status send(const Message& message, absl::Span<const Bytes> payload) override {
    text_.clear();
    if (!message.AppendToString(&text_)) return internal("a message cannot be written");
    FrameHead head{static_cast<uint32_t>(text_.size()), 0};
    for (const Bytes bytes : payload) head.payload += bytes.size();
    const auto head_bytes = encode_head(head);
    buffers_.clear();
    buffers_.push_back(net::buffer(head_bytes));
    buffers_.push_back(net::buffer(text_));
    for (const Bytes bytes : payload) {
      if (!bytes.empty()) buffers_.push_back(net::buffer(bytes.data(), bytes.size()));
    }
    Fault fault;
    const size_t written =
        tls_ ? net::write(*tls_, buffers_, fault) : net::write(socket_, buffers_, fault);
    sent_ += written;
    tensors_ += head.payload;
    return fault ? at_end(fault) : absl::OkStatus();
  }

  absl::StatusOr<Frame> receive(const FrameLimits& limits) override {
    std::array<std::byte, kFrameHead> head_bytes;
    RETURN_IF_ERROR(take(head_bytes.data(), head_bytes.size()));
    ASSIGN_OR_RETURN(const FrameHead head, decode_head(head_bytes, limits));
    RETURN_IF_ERROR(take_text(head.message));
    Frame frame{.bytes = head.payload};
    if (!frame.message.ParseFromString(text_)) return invalid("a message that cannot be read");
    if (head.payload > 0) {
      std::shared_ptr<std::byte[]> payload(new std::byte[head.payload]);
      RETURN_IF_ERROR(take(payload.get(), head.payload));
      frame.payload = std::move(payload);
      tensors_ += head.payload;
    }
    return frame;
  }

  std::string peer() const override { return peer_; }
  std::string machine() const override { return machine_; }
  // Where a third of kSendBuffer is free, and where it has ended.
  bool has_room() const override {
    pollfd wanted{const_cast<tcp::socket&>(socket_).native_handle(), POLLOUT, 0};
    return ::poll(&wanted, 1, 0) != 0;
  }

 private:
  void shut() override { ::shutdown(socket_.native_handle(), SHUT_RDWR); }

  template <class Buffers>
  size_t read_some(const Buffers& buffers, Fault& fault) {
    const size_t got = tls_ ? tls_->read_some(buffers, fault) : socket_.read_some(buffers, fault);
    received_ += got;
    return got;
  }

  // As it comes: who says that much will come has sent nothing of it yet.
  absl::Status take_text(size_t bytes) {
    text_.clear();
    while (text_.size() < bytes) {
      const size_t before = text_.size();
      text_.resize(std::min(bytes, 2 * before + kTextAtFirst));
      RETURN_IF_ERROR(
          take(reinterpret_cast<std::byte*>(text_.data()) + before, text_.size() - before));
    }
    return absl::OkStatus();
  }

  // What was read ahead first; the rest straight to its place, where it is much.
  absl::Status take(std::byte* to, size_t bytes) {
    while (bytes > 0) {
      if (begin_ < end_) {
        const size_t some = std::min(bytes, end_ - begin_);
        std::memcpy(to, ahead_.data() + begin_, some);
        begin_ += some;
        to += some;
        bytes -= some;
        continue;
      }
      Fault fault;
      if (bytes >= ahead_.size()) {
        const size_t got = read_some(net::buffer(to, bytes), fault);
        to += got;
        bytes -= got;
      } else {
        begin_ = 0;
        end_ = read_some(net::buffer(ahead_), fault);
      }
      if (fault) return at_end(fault);
      came();
    }
    return absl::OkStatus();
  }

  tcp::socket socket_;
  std::optional<ssl::context> context_;
  std::optional<ssl::stream<tcp::socket&>> tls_;
  std::string peer_ = "nobody", machine_;
  std::string text_;  // of a message: kept for its memory, as the next two are
  std::vector<net::const_buffer> buffers_;
  std::vector<std::byte> ahead_ = std::vector<std::byte>(kReadAhead);
  size_t begin_ = 0, end_ = 0;
};

class TcpAcceptor : public Acceptor {
 public:
  static absl::StatusOr<std::unique_ptr<Acceptor>> listen(const std::string& host, uint16_t port) {
    Fault fault;
    const auto found =
        tcp::resolver(io()).resolve(host, std::to_string(port), tcp::resolver::passive, fault);
    auto made = std::unique_ptr<TcpAcceptor>(new TcpAcceptor);
    if (!fault) made->bind(*found.begin(), fault);
    if (!fault) return made;
    return error(absl::StatusCode::kUnavailable, "cannot listen on {}:{}: {}", host, port,
                 fault.message());
  }
  uint16_t port() const override { return port_; }
  absl::StatusOr<std::shared_ptr<Channel>> accept() override {
    Fault fault;
    tcp::socket socket = acceptor_.accept(fault);
    if (fault) return error(absl::StatusCode::kUnavailable, "{}", fault.message());
    return std::make_shared<TcpChannel>(std::move(socket));
  }
  void close() override { ::shutdown(acceptor_.native_handle(), SHUT_RDWR); }

 private:
  void bind(const tcp::endpoint& where, Fault& fault) {
    acceptor_.open(where.protocol(), fault);
    if (!fault) acceptor_.set_option(tcp::acceptor::reuse_address(true), fault);
    if (!fault) acceptor_.bind(where, fault);
    if (!fault) acceptor_.listen(net::socket_base::max_listen_connections, fault);
    if (!fault) port_ = acceptor_.local_endpoint(fault).port();
  }

  tcp::acceptor acceptor_{io()};
  uint16_t port_ = 0;
};

absl::StatusOr<ssl::context> context_of(const TlsFiles& tls) {
  ssl::context context(ssl::context::tls);
  Fault fault;
  context.set_options(ssl::context::default_workarounds | ssl::context::no_sslv2 |
                          ssl::context::no_sslv3 | ssl::context::no_tlsv1 |
                          ssl::context::no_tlsv1_1,
                      fault);
  const auto tell = [&fault](const std::string& file, const char* what) {
    return invalid("{}: {}, expected {}", file, fault.message(), what);
  };
  context.use_certificate_chain_file(tls.certificate, fault);
  if (fault) return tell(tls.certificate, "a certificate in PEM");
  context.use_private_key_file(tls.key, ssl::context::pem, fault);
  if (fault) return tell(tls.key, "the certificate's key in PEM");
  context.load_verify_file(tls.authority, fault);
  if (fault) return tell(tls.authority, "an authority's certificate in PEM");
  context.set_verify_mode(ssl::verify_peer | ssl::verify_fail_if_no_peer_cert, fault);
  return context;
}

// HOST:PORT, of IPv6 [HOST]:PORT.
absl::StatusOr<std::pair<std::string, std::string>> divide_address(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == address.size()) {
    return invalid("'{}', expected HOST:PORT", address);
  }
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  return std::pair(host, address.substr(colon + 1));
}

}  // namespace

absl::Status Tcp::check(const TlsFiles& tls) {
  return tls.on() ? context_of(tls).status() : absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Channel>> Tcp::connect(const std::string& address,
                                                      Duration patience) {
  ASSIGN_OR_RETURN(const auto divided, divide_address(address));
  net::io_context own;  // for a connection that may take too long
  Fault fault;
  const auto found = tcp::resolver(own).resolve(divided.first, divided.second, fault);
  if (fault) {
    return error(absl::StatusCode::kUnavailable, "no address of {}: {}", address, fault.message());
  }
  tcp::socket socket(own);
  fault = net::error::timed_out;
  net::async_connect(socket, found, [&fault](const Fault& ended, const auto&) { fault = ended; });
  own.run_for(std::chrono::nanoseconds(patience.nanos()));
  if (fault) {
    return error(absl::StatusCode::kUnavailable, "no connection to {}: {}", address,
                 fault.message());
  }
  const tcp protocol = socket.local_endpoint().protocol();
  tcp::socket kept(io(), protocol, socket.release());
  return std::make_shared<TcpChannel>(std::move(kept));
}

absl::StatusOr<std::unique_ptr<Acceptor>> Tcp::listen(const std::string& host, uint16_t port) {
  return TcpAcceptor::listen(host, port);
}

absl::Status Tcp::secure(Channel& channel, const TlsFiles& tls, bool accepts) {
  if (!tls.on()) return absl::OkStatus();
  ASSIGN_OR_RETURN(ssl::context context, context_of(tls));
  return static_cast<TcpChannel&>(channel).secure(std::move(context), accepts);
}

}  // namespace fermata::cluster
