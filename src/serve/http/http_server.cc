#include "serve/http/http_server.h"

#include <atomic>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/websocket/rfc6455.hpp>
#include <future>
#include <thread>

#include "base/status.h"
#include "serve/http/http_connection.h"
#include "serve/net/acceptor.h"

namespace fermata::serve {
namespace {

namespace net = boost::asio;

constexpr std::chrono::milliseconds kSweepEvery(1000), kSweepWhenDraining(50);

void sweep_from_now_on(HttpShard& shard, net::steady_timer& timer) {
  timer.expires_after(shard.draining ? kSweepWhenDraining : kSweepEvery);
  timer.async_wait([&](const boost::system::error_code& failed) {
    if (failed) return;
    shard.sweep();
    sweep_from_now_on(shard, timer);
  });
}

}  // namespace

HttpMethod HttpExchange::method() const { return request_->method(); }

std::string_view HttpExchange::target() const { return path_of(request_->message); }

std::string_view HttpExchange::header(std::string_view name) const {
  const boost::beast::string_view wanted(name.data(), name.size());
  for (const auto& field : request_->message) {  // few, and most are of another length
    if (!boost::beast::iequals(field.name_string(), wanted)) continue;
    return {field.value().data(), field.value().size()};
  }
  return {};
}

std::string_view HttpExchange::body() const { return request_->message.body(); }
std::shared_ptr<const void> HttpExchange::owner() const { return request_; }
const Client& HttpExchange::client() const { return request_->connection->client(); }
HeldBytes& HttpExchange::held() { return request_->held; }

bool HttpExchange::wants_web_socket() const {
  return boost::beast::websocket::is_upgrade(request_->message);
}

void HttpExchange::upgrade(std::shared_ptr<WebSocketHandler> handler) {
  const auto request = std::exchange(request_, nullptr);
  request->connection->upgrade(*request, std::move(handler));
}

void HttpExchange::stream_events(std::shared_ptr<EventListener> listener) {
  if (request_->is_head) return respond({.content_type = "text/event-stream"});
  const auto request = std::exchange(request_, nullptr);
  request->connection->stream_events(*request, std::move(listener));
}

void HttpExchange::respond(HttpResponse response) {
  const auto request = std::exchange(request_, nullptr);
  request->connection->respond(*request, std::move(response));
}

struct HttpServer::Impl {
  struct Shard : HttpShard {
    net::steady_timer timer{io};
    std::thread thread;
  };

  const HttpOptions options;
  HttpHandler& handler;
  std::atomic<bool> draining = false;
  size_t next_shard = 0;  // of the thread that accepts
  std::vector<std::unique_ptr<Shard>> shards;
  std::unique_ptr<Acceptor> acceptor;

  Impl(const HttpOptions& o, HttpHandler& h) : options(o), handler(h) {
    for (uint32_t i = 0; i < options.threads; ++i) {
      shards.emplace_back(new Shard{{options, handler, draining}});
    }
    for (size_t i = 0; i < shards.size(); ++i) {
      shards[i]->next = &*shards[(i + 1) % shards.size()];
      shards[i]->addresses = shards[0]->addresses;
    }
  }
  ~Impl() { stop(); }

  absl::Status start() {
    ASSIGN_OR_RETURN(acceptor, Acceptor::open(shards[0]->io, options.address, options.port));
    acceptor->start({[this]() -> net::io_context& { return shards[next_shard]->io; },
                     [this](Acceptor::Socket socket) { accepted(std::move(socket)); },
                     [this] { evict(); }});
    for (const auto& shard : shards) {
      sweep_from_now_on(*shard, shard->timer);
      shard->thread = std::thread([&io = shard->io] {
        const auto work = net::make_work_guard(io);
        io.run();
      });
    }
    return absl::OkStatus();
  }

  size_t connections() const {
    size_t sum = 0;
    for (const auto& shard : shards) sum += shard->count.load(std::memory_order_relaxed);
    return sum;
  }

  void evict() {
    for (const auto& shard : shards) {
      net::post(shard->io, [&shard = *shard] { shard.evict(nullptr); });
    }
  }

  void accepted(Acceptor::Socket socket) {
    Shard& shard = *shards[next_shard];
    next_shard = (next_shard + 1) % shards.size();
    net::dispatch(shard.io, [&shard, socket = std::move(socket)]() mutable {
      const auto connection = std::make_shared<HttpConnection>(std::move(socket), shard);
      shard.has_room_for(*connection) ? connection->start() : connection->turn_away();
    });
  }

  // Clients are told to come again when nobody listens any more: one that comes in the moment in
  // which the listener closes is reset.
  void drain() {
    std::promise<void> closed;
    net::post(shards[0]->io, [this, &closed] {
      acceptor->close();
      closed.set_value();
    });
    closed.get_future().wait();
    draining = true;
    for (const auto& shard : shards) {
      net::post(shard->io, [&shard = *shard] {
        shard.drain();
        sweep_from_now_on(shard, shard.timer);
      });
    }
  }

  void stop() {
    for (const auto& shard : shards) shard->io.stop();
    for (const auto& shard : shards) {
      if (shard->thread.joinable()) shard->thread.join();
      shard->end();
    }
  }
};

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::start(const HttpOptions& options,
                                                              HttpHandler& handler) {
  auto impl = std::make_unique<Impl>(options, handler);
  RETURN_IF_ERROR(impl->start());
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;
uint16_t HttpServer::port() const { return impl_->acceptor->port(); }
size_t HttpServer::connections() const { return impl_->connections(); }
net::io_context& HttpServer::io() { return impl_->shards[0]->io; }
void HttpServer::drain() { impl_->drain(); }
void HttpServer::stop() { impl_->stop(); }

}  // namespace fermata::serve
