#include "serve/server.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <thread>
#include <utility>

#include "base/status.h"
#include "engine/onnx/onnx_model.h"
#include "engine/threads/periodic.h"
#include "serve/call/shared_memory.h"
#include "serve/config/reach.h"
#include "serve/grpc/grpc_server.h"
#include "serve/http/http_front_end.h"
#include "serve/http/http_server.h"
#include "serve/live/live.h"
#include "serve/metrics.h"
#include "serve/net/acceptor.h"
#include "serve/net/background.h"
#include "serve/net/descriptors.h"
#include "serve/net/memory_return.h"
#include "serve/operations/operations.h"
#include "tune/served_tuner.h"

namespace fermata::serve {
namespace {

constexpr std::chrono::milliseconds kDrainPoll(5);
constexpr Duration kMemoryLook = Duration::seconds(2), kTunerLook = Duration::seconds(1);
constexpr Duration kArrivalGrace = Duration::seconds(2);  // of half a request, when it stops

constexpr uint64_t kPartForSmall = 8;  // of listen.memory_mb, that these have beyond it
constexpr size_t kMiB = 1 << 20;

HttpOptions http_options(const ListenOptions& listen, uint16_t port, size_t max_connections,
                         const std::shared_ptr<ByteBudget>& budget) {
  HttpOptions options;
  options.address = listen.host;
  options.port = port;
  options.threads = listen.threads;
  options.max_body_bytes = listen.max_request_mb * kMiB;
  options.budget = budget;
  options.connection_bytes = listen.memory_mb * kMiB / 4;
  options.max_connections = max_connections;
  options.arrival_grace = kArrivalGrace;
  return options;
}

GrpcOptions grpc_options(const ListenOptions& listen, size_t max_connections,
                         const std::shared_ptr<ByteBudget>& budget) {
  GrpcOptions options;
  options.address = listen.host;
  options.port = listen.grpc;
  options.max_connections = max_connections;
  options.max_message_bytes = listen.max_request_mb * kMiB;
  options.budget = budget;
  options.admin = serves_admin(listen);
  options.connection_bytes = listen.memory_mb * kMiB / 4;
  options.arriving_bytes = listen.arriving_mb * kMiB;
  options.streams_bytes = listen.streams_mb * kMiB;
  options.max_calls = listen.max_calls;
  return options;
}

// From elsewhere nobody shares memory with us, unless the configuration says what.
SharedMemoryOptions shared_memory_options_of(const ListenOptions& listen) {
  SharedMemoryOptions options = listen.shared_memory;
  if (!options.prefix && is_loopback(listen.host)) options.prefix = "/";
  return options;
}

}  // namespace

// In the order of their making; each is used by those below it.
struct Server::Parts {
  std::unique_ptr<engine::Engine> engine;
  const std::shared_ptr<ByteBudget> budget;
  SharedMemory regions;
  Operations operations;
  const LiveOptions live_options;
  tune::ServedTuner tuner;
  Live live;
  HttpFrontEnd http_front_end;
  std::unique_ptr<HttpServer> http;
  HttpFrontEnd admin_front_end;
  std::unique_ptr<HttpServer> admin;
  std::unique_ptr<GrpcServer> grpc;
  std::unique_ptr<MetricsFrontEnd> metrics_front_end;
  std::unique_ptr<HttpServer> metrics;
  MemoryReturn memory{budget, std::chrono::nanoseconds(kMemoryLook.nanos())};
  engine::Periodic memory_look{kMemoryLook, [this] {
                                 engine::give_back_model_memory();
                                 memory.look();
                               }};
  std::unique_ptr<engine::Periodic> tuner_look;
  bool stopped = false;

  Parts(std::unique_ptr<engine::Engine> e, const ListenOptions& listen, LiveOptions shown)
      : engine(std::move(e)),
        budget(std::make_shared<ByteBudget>(listen.memory_mb * kMiB, nullptr,
                                            listen.memory_mb * kMiB / kPartForSmall)),
        regions(shared_memory_options_of(listen), budget),
        operations(*engine, regions, listen.ready_any),
        live_options(std::move(shown)),
        tuner(*engine, live_options.engine, live_options.recorder.get(), work_of_thread,
              live_options.tune),
        live(*engine, live_options.engine, live_options.recorder.get(), tuner,
             live_options.record_file),
        http_front_end(*engine, operations, regions, listen.max_request_mb * kMiB,
                       serves_admin(listen), {listen.origins, is_loopback(listen.host)}),
        admin_front_end(*engine, operations, regions, listen.max_request_mb * kMiB, true,
                        {listen.origins, true}) {}

  absl::Status start(const ListenOptions& listen) {
    const ConnectionLimits limits =
        connection_limits(listen.max_connections, raise_descriptor_limit());
    if (limits.http < listen.max_connections) {
      spdlog::warn("{} connections each over HTTP and gRPC: the limit of open files allows no more",
                   limits.http);
    }
    ASSIGN_OR_RETURN(http, HttpServer::start(http_options(listen, listen.http, limits.http, budget),
                                             http_front_end));
    ASSIGN_OR_RETURN(grpc, GrpcServer::start(grpc_options(listen, limits.grpc, budget), http->io(),
                                             *engine, operations, regions));
    metrics_front_end = std::make_unique<MetricsFrontEnd>(
        *engine, tuner,
        FrontEnds{
            {"http", http_front_end.counters(), [this] { return http->connections(); }},
            {"grpc", grpc->counters(), [this] { return grpc->connections(); }},
        },
        budget);
    http_front_end.show(*metrics_front_end);
    admin_front_end.show(*metrics_front_end);
    http_front_end.show_live(live);
    admin_front_end.show_live(live);
    HttpOptions options = http_options(listen, listen.metrics, limits.metrics, nullptr);
    options.threads = 1;
    ASSIGN_OR_RETURN(metrics, HttpServer::start(options, *metrics_front_end));
    tuner_look = std::make_unique<engine::Periodic>(kTunerLook, [this] {
      give_way();
      if (const auto moved = tuner.look()) spdlog::info("{}", *moved);
    });
    if (!listen.admin_port) return absl::OkStatus();
    options = http_options(listen, *listen.admin_port, limits.metrics, budget);
    options.address = "localhost";
    options.threads = 1;
    ASSIGN_OR_RETURN(admin, HttpServer::start(options, admin_front_end));
    return absl::OkStatus();
  }

  void drain(Duration patience) {
    const auto give_up =
        std::chrono::steady_clock::now() + std::chrono::nanoseconds(patience.nanos());
    operations.stop();
    engine->stop_loading();
    if (http != nullptr) http->drain();
    if (admin != nullptr) admin->drain();
    if (grpc != nullptr) grpc->stop(patience);
    const auto open = [](const auto& server) { return server ? server->connections() : 0; };
    while (open(http) + open(admin) > 0 && std::chrono::steady_clock::now() < give_up) {
      std::this_thread::sleep_for(kDrainPoll);
    }
  }

  // No handler runs after the io threads have ended; then the engine answers what
  // is left into connections that nobody reads, and everything may go.
  void end() {
    if (http != nullptr) http->stop();
    if (metrics != nullptr) metrics->stop();
    if (admin != nullptr) admin->stop();
    tuner_look.reset();
    live.finish();
    http_front_end.finish();
    admin_front_end.finish();
    operations.finish();
    engine.reset();
  }
};

absl::Status Server::try_ports(const ListenOptions& options) {
  boost::asio::io_context io;
  for (const uint16_t port : {options.http, options.grpc, options.metrics}) {
    RETURN_IF_ERROR(Acceptor::open(io, options.host, port).status());
  }
  return options.admin_port ? Acceptor::open(io, "localhost", *options.admin_port).status()
                            : absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Server>> Server::start(const ListenOptions& options,
                                                      std::unique_ptr<engine::Engine> engine,
                                                      LiveOptions live) {
  bound_kept_memory();
  auto parts = std::make_unique<Parts>(std::move(engine), options, std::move(live));
  auto server = std::unique_ptr<Server>(new Server(std::move(parts)));
  RETURN_IF_ERROR(server->parts_->start(options));
  return server;
}

Server::Server(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Server::~Server() {
  if (!parts_->stopped) stop(Duration());
}

Ports Server::ports() const {
  return {parts_->http->port(), parts_->grpc->port(), parts_->metrics->port(),
          parts_->admin == nullptr ? uint16_t{0} : parts_->admin->port()};
}

engine::Engine& Server::engine() { return *parts_->engine; }
void Server::leave() { parts_->operations.leave(); }

void Server::stop(Duration patience) {
  parts_->stopped = true;
  parts_->drain(patience);
  parts_->end();
}

}  // namespace fermata::serve
