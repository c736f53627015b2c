#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/time.h"
#include "engine/services/pipeline.h"
#include "model/latency.h"

namespace fermata::engine {

// What a frame takes of a worker, by batch size, and beside it.
struct StreamCost {
  std::shared_ptr<const LatencyTable> latency;
  Duration delay;
};

// What frames of a stream service's variants cost: the 99th percentiles of the models that answer
// them, summed over the stages of a pipeline, as much longer as these models run lately than they
// were profiled. Operators delay the answer and take no worker. What has not run since the last
// look is believed half as slow as then, so that one bad moment does not shut clients out for ever.
// Not synchronised.
class StreamCosts {
 public:
  // Of the running engine; each may be called from any thread.
  using Runs = std::function<std::vector<Duration>(const std::shared_ptr<const Pipeline>&)>;
  struct Sources {
    FindRoute find;
    Runs runs;
    bool hosts_measure = false;  // what they measure stays with their workers, and is unknown here
  };
  explicit StreamCosts(Sources sources) : sources_(std::move(sources)) {}

  // By service. UNAVAILABLE where one is not served, or has no profile since hosts measure;
  // INVALID_ARGUMENT where one has none otherwise.
  absl::StatusOr<std::vector<StreamCost>> look(const std::vector<std::string>& services);
  // How long the operators of what a service runs delay its answers, where they run.
  static Duration operators(const std::shared_ptr<const Pipeline>& pipeline, const Runs& runs);

 private:
  struct Slowed {
    uint64_t look = 0, ran = 0;  // the last look, and how many batches had run by then
    double factor = 1;
  };
  struct Sum {
    uint32_t most = 256;  // items of a batch
    std::vector<std::shared_ptr<const LatencyTable>> tables;
    std::vector<double> factors;
    double each_ms = 0;  // of what does not batch
  };
  absl::Status add(const std::string& route, const Variant& model, Duration alone, Sum& sum);
  absl::Status add(const std::shared_ptr<const Pipeline>& pipeline, Sum& sum);
  double factor(const std::string& route);

  const Sources sources_;
  uint64_t looks_ = 0;
  std::map<std::string, Slowed> slowed_;  // by route
};

}  // namespace fermata::engine
