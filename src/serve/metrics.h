#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_budget.h"
#include "engine/engine.h"
#include "engine/snapshot.h"
#include "serve/http/http_server.h"
#include "serve/net/counters.h"
#include "tune/served_tuner.h"

namespace fermata::serve {

struct FrontEnd {
  std::string protocol;
  const FrontEndCounters& counters;
  std::function<size_t()> connections;  // that are open
};
using FrontEnds = std::vector<FrontEnd>;

// Everything that docs/metrics.md names, in Prometheus' text format. `held`: what clients hold.
std::string metrics_text(const engine::EngineSnapshot& snapshot, const FrontEnds& front_ends,
                         const ByteBudget& held, const tune::TuningStatus& tuning);

// Serves GET /metrics from snapshots that are taken when it is asked: counting
// costs requests nothing.
class MetricsFrontEnd : public HttpHandler {
 public:
  // All outlive it.
  MetricsFrontEnd(const engine::Engine& engine, const tune::ServedTuner& tuner,
                  FrontEnds front_ends, std::shared_ptr<const ByteBudget> held)
      : engine_(engine),
        tuner_(tuner),
        front_ends_(std::move(front_ends)),
        held_(std::move(held)) {}

  void request(HttpExchange exchange) override;
  void opened(uint64_t) override {}
  void closed(uint64_t) override {}

 private:
  const engine::Engine& engine_;
  const tune::ServedTuner& tuner_;
  const FrontEnds front_ends_;
  const std::shared_ptr<const ByteBudget> held_;
};

}  // namespace fermata::serve
