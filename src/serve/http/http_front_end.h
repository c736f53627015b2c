#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "serve/call/shared_memory.h"
#include "serve/http/http_routes.h"
#include "serve/http/http_server.h"
#include "serve/http/page_origin.h"
#include "serve/http/running_jobs.h"
#include "serve/http/web_stream.h"
#include "serve/net/background.h"
#include "serve/net/counters.h"
#include "serve/operations/operations.h"

namespace fermata::serve {

// The Open Inference Protocol over HTTP: decodes what the server receives, asks
// the engine or the operations, and answers. A connection that closes cancels
// its jobs. Compressed bodies, long JSON and long replies are worked on by background threads.
class HttpFrontEnd : public HttpHandler {
 public:
  // All outlive it. max_body_bytes bounds a body after decompression. `admin`: is_admin() calls
  // are answered too.
  HttpFrontEnd(engine::Engine& engine, Operations& operations, const SharedMemory& regions,
               size_t max_body_bytes, bool admin, TrustedPages trusted)
      : engine_(engine),
        operations_(operations),
        regions_(regions),
        max_body_bytes_(max_body_bytes),
        admin_(admin),
        trusted_(std::move(trusted)) {}

  void request(HttpExchange exchange) override;
  void opened(uint64_t connection) override { jobs_.open(connection); }
  void closed(uint64_t connection) override;

  // Answers GET /metrics too, on its behalf: an administrative call.
  void show(HttpHandler& metrics) { metrics_ = &metrics; }
  // The same of the calls under /v2/live.
  void show_live(HttpHandler& live) { live_ = &live; }
  // Once no request comes any more: those on background threads are with the engine then.
  void finish() { background_.finish(); }

  const FrontEndCounters& counters() const { return counters_; }

 private:
  static constexpr size_t kBackgroundThreads = 3;
  struct Infer;

  void open_page(HttpExchange exchange, const HttpRoute& route);
  void open_stream(HttpExchange exchange, const HttpRoute& route);
  void start(std::unique_ptr<Infer> infer);
  // The same on a background thread, after what has to be unpacked there.
  void begin_unpacking(std::unique_ptr<Infer> infer);
  void unpack_later(std::unique_ptr<Infer> infer);
  void start_later(std::unique_ptr<Infer> infer);
  absl::StatusOr<InferCall> decode(Infer& infer);
  absl::StatusOr<InferCall> prepare(Infer& infer);
  void submit(std::unique_ptr<Infer> infer, engine::InferRequest&& request);
  void reject(Infer& infer, const absl::Status& bad);
  void end(std::unique_ptr<Infer> infer, engine::ReplyPart&& part);
  void answer(Infer& infer, engine::ReplyPart&& part);

  engine::Engine& engine_;
  Operations& operations_;
  const SharedMemory& regions_;
  const size_t max_body_bytes_;
  const bool admin_;
  const TrustedPages trusted_;
  std::atomic<HttpHandler*> metrics_ = nullptr, live_ = nullptr;
  RunningJobs jobs_;
  FrontEndCounters counters_;
  Background background_{kBackgroundThreads};
  WebHouse web_{engine_, regions_, counters_, background_};
};

// Answers every call but infer.
void answer_operation(HttpExchange exchange, const HttpRoute& route, Operations& operations);
// The protocol's error body.
HttpResponse error_response(const absl::Status& status);

}  // namespace fermata::serve
