#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/options.h"
#include "engine/services/forecast_model.h"
#include "engine/services/measured_runs.h"
#include "engine/services/pipeline.h"
#include "engine/snapshot.h"
#include "estimate/forecast.h"
#include "plan/pipeline/pipeline_adapter.h"

namespace fermata::engine {

// What was decided for a pipeline, from what.
struct AdapterDecision {
  std::string service;
  uint64_t number = 0;  // counts from 1
  double forecast_rps = 0;
  Time at;  // when it was begun
  Duration took;
  plan::PipelineDecision decision;
  // Of dedicated replicas: by which equation their threads were counted.
  std::vector<AdapterOptions::Cores> cores;
};

// What is measured of the services that a pipeline is made of.
struct StageMeasures {
  std::vector<Duration> runs;  // by stage: of one item, of what is no model
  const std::map<std::string, ServiceStatistics>* rows;  // by service; "service/stage" too
};

// Plans a pipeline of the server for its load (IPA, section 4): counts what comes in each second,
// forecasts the highest of the next 20, and solves equation 10 every interval with the latencies
// and items that are measured. Stages share the workers, of which they are planned parts.
// Not synchronised.
class Adapter {
 public:
  // Loads the network, if the forecast is one: blocks.
  static absl::StatusOr<std::unique_ptr<Adapter>> make(const ServiceOptions& options,
                                                       const WorkerOptions& workers);

  // Another second has passed. Whether a decision is due.
  bool second(double requests);
  // The latest of last(). Milliseconds.
  const AdapterDecision& decide(const Pipeline& pipeline, const StageMeasures& measures);
  // The newest first, up to kKept.
  const std::vector<AdapterDecision>& last() const { return last_; }
  const std::string& service() const { return service_; }
  bool dedicated() const { return options_.dedicated; }
  bool runs(const std::string& model) const;  // on a dedicated replica
  // Its replicas are dedicated and have not been planned yet.
  bool is_new() const { return options_.dedicated && last_.empty(); }
  // By stage, the variants to run: where nothing keeps the limits those that carry most.
  std::map<std::string, std::string> variants() const;
  PipelineStatistics statistics() const;

  static constexpr size_t kKept = 16;

 private:
  Adapter(const ServiceOptions& options, const WorkerOptions& workers,
          std::unique_ptr<ForecastModel> forecast);
  std::vector<plan::PipelineDemand> demands() const;
  // Of the route's batches, measured over profiled time; none before any.
  MeasuredRuns::Sums look_at(const std::string& route, VariantId variant,
                             const LatencyTable& believed, const StageMeasures& measures);
  std::vector<plan::PipelineVariant> variants_of(const Pipeline::Stage& stage,
                                                 const StageMeasures& measures);
  std::vector<plan::PipelineStage> stages(const Pipeline& pipeline, const StageMeasures& measures);

  const std::string service_;
  const std::optional<Duration> slo_;
  const AdapterOptions options_;
  const uint32_t threads_;
  const double shares_;  // of a worker, that a replica is: PipelineAdapterOptions
  const std::unique_ptr<ForecastModel> network_;
  estimate::LoadWindow loads_;
  estimate::BurstForecast square_root_;
  uint64_t seconds_ = 0, decisions_ = 0, infeasible_ = 0;
  plan::PipelineAdapter planner_;
  std::vector<AdapterDecision> last_;
  plan::PipelinePlan runs_now_;               // by the last decision
  std::map<std::string, MeasuredRuns> runs_;  // by route
};

}  // namespace fermata::engine
