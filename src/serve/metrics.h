#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/snapshot.h"
#include "serve/http/http_server.h"
#include "serve/net/counters.h"

namespace fermata::serve {

using FrontEnds = std::vector<std::pair<std::string, const FrontEndCounters*>>;

// Everything that docs/metrics.md names, in Prometheus' text format.
std::string metrics_text(const engine::EngineSnapshot& snapshot, const FrontEnds& front_ends);

// Serves GET /metrics from snapshots that are taken when it is asked: counting
// costs requests nothing.
class MetricsFrontEnd : public HttpHandler {
 public:
  // All outlive it.
  MetricsFrontEnd(const engine::Engine& engine, FrontEnds front_ends)
      : engine_(engine), front_ends_(std::move(front_ends)) {}

  void request(HttpExchange exchange) override;
  void opened(uint64_t) override {}
  void closed(uint64_t) override {}

 private:
  const engine::Engine& engine_;
  const FrontEnds front_ends_;
};

}  // namespace fermata::serve
