#include "engine/services/stream_costs.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "engine/schedule/job.h"
#include "plan/streams/stream_problem.h"

namespace fermata::engine {
namespace {

constexpr double kPlanQuantile = 0.99;
constexpr double kForgotten = 0.5;  // of what a model was slower by, at a look without a run

}  // namespace

// Only slower: a mean below the profile's says nothing of the 99th percentile.
double StreamCosts::factor(const std::string& route) {
  Slowed& slowed = slowed_[route];
  if (std::exchange(slowed.look, looks_) == looks_) return slowed.factor;
  const std::shared_ptr<const Route> now = sources_.find(route);
  const uint64_t ran = now == nullptr ? slowed.ran : now->counters->executions();
  const bool runs = std::exchange(slowed.ran, ran) != ran;
  slowed.factor =
      runs ? std::max(now->counters->drift(), 1.0) : 1 + (slowed.factor - 1) * kForgotten;
  return slowed.factor;
}

absl::Status StreamCosts::add(const std::string& route, const Variant& model, Duration alone,
                              Sum& sum) {
  if (!model.profile.measured()) {
    sum.each_ms += alone.millis();
    return absl::OkStatus();
  }
  const uint32_t most = std::min(model.signature.max_batch, plan::StreamVariant::kMostBatch);
  ASSIGN_OR_RETURN(
      auto table, LatencyTable::make(latency_at(model.profile, kPlanQuantile), std::max(most, 1u)));
  sum.most = std::min(sum.most, table->max_batch());
  sum.tables.push_back(std::move(table));
  sum.factors.push_back(factor(route));
  return absl::OkStatus();
}

absl::Status StreamCosts::add(const std::shared_ptr<const Pipeline>& pipeline, Sum& sum) {
  const std::vector<Duration> runs = sources_.runs(pipeline);
  for (size_t s = 0; s < pipeline->stages.size(); ++s) {
    const Pipeline::Stage& stage = pipeline->stages[s];
    if (stage.op != nullptr) continue;
    if (stage.pipeline == nullptr) {
      RETURN_IF_ERROR(add(stage.route, *stage.member, runs[s], sum));
    } else if (stage.pipeline->choice == nullptr) {
      RETURN_IF_ERROR(add(stage.pipeline, sum));
    } else {
      sum.each_ms += runs[s].millis();
    }
  }
  return absl::OkStatus();
}

Duration StreamCosts::operators(const std::shared_ptr<const Pipeline>& pipeline, const Runs& runs) {
  Duration sum;
  if (pipeline == nullptr || pipeline->choice != nullptr) return sum;
  const std::vector<Duration> own = runs(pipeline);
  for (size_t s = 0; s < pipeline->stages.size(); ++s) {
    const Pipeline::Stage& stage = pipeline->stages[s];
    sum += stage.op != nullptr ? own[s] : operators(stage.pipeline, runs);
  }
  return sum;
}

absl::StatusOr<std::vector<StreamCost>> StreamCosts::look(
    const std::vector<std::string>& services) {
  ++looks_;
  std::vector<StreamCost> costs;
  for (const std::string& service : services) {
    const std::shared_ptr<const Route> route = sources_.find(service);
    if (route == nullptr) {
      return error(absl::StatusCode::kUnavailable, "'{}' is not served", service);
    }
    Sum sum;
    if (route->pipeline != nullptr && route->pipeline->choice == nullptr) {
      RETURN_IF_ERROR(add(route->pipeline, sum));
    } else {
      const double ms = route->variant->profile.linear.latency.beta_ms;
      RETURN_IF_ERROR(add(service, *route->variant, Duration::from_millis(ms), sum));
    }
    if (sum.tables.empty()) sum.most = 1;
    TableLatency table;
    for (uint32_t b = 1; b <= sum.most; ++b) {
      double& ms = table.points_ms[b] = b * sum.each_ms;
      for (size_t t = 0; t < sum.tables.size(); ++t) {
        ms += (*sum.tables[t])(b).millis() * sum.factors[t];
      }
    }
    if (table.points_ms.at(1) <= 0) {
      if (!sources_.hosts_measure) return invalid("'{}' has no profile to plan with", service);
      return error(absl::StatusCode::kUnavailable,
                   "'{}' has no profile to plan with, and what hosts measure is not known here: "
                   "write it beside the model (fermata profile), then load the model again",
                   service);
    }
    ASSIGN_OR_RETURN(auto latency, LatencyTable::make(table, sum.most));
    costs.push_back({std::move(latency), operators(route->pipeline, sources_.runs)});
  }
  return costs;
}

}  // namespace fermata::engine
