#include "serve/operations/statistics.h"

#include "base/status.h"
#include "serve/operations/operations.h"

namespace fermata::serve {
namespace {

void fill(const engine::DurationCount& from, inference::StatisticDuration& to) {
  to.set_count(from.count);
  to.set_ns(static_cast<uint64_t>(from.total.nanos()));
}

}  // namespace

void fill_statistics(const engine::ServiceStatistics& from, inference::ModelStatistics& to) {
  to.set_name(from.service);
  to.set_version(from.version);
  to.set_last_inference(static_cast<uint64_t>(from.last_inference_ms));
  to.set_inference_count(from.inference_count);
  to.set_execution_count(from.execution_count);
  inference::InferStatistics& stats = *to.mutable_inference_stats();
  fill(from.success, *stats.mutable_success());
  fill(from.fail, *stats.mutable_fail());
  fill(from.queue, *stats.mutable_queue());
  fill(from.compute_input, *stats.mutable_compute_input());
  fill(from.compute_infer, *stats.mutable_compute_infer());
  fill(from.compute_output, *stats.mutable_compute_output());
  fill({}, *stats.mutable_cache_hit());
  fill({}, *stats.mutable_cache_miss());
  for (const auto& [items, batch] : from.batches) {
    auto& row = *to.add_batch_stats();
    row.set_batch_size(items);
    fill(batch.compute_input, *row.mutable_compute_input());
    fill(batch.compute_infer, *row.mutable_compute_infer());
    fill(batch.compute_output, *row.mutable_compute_output());
  }
}

absl::Status Operations::model_statistics(const inference::ModelStatisticsRequest& request,
                                          inference::ModelStatisticsResponse& response) const {
  const auto catalog = engine_.catalog();
  const auto wanted = [&](const engine::ServiceStatistics& row) {
    return !row.version.empty() &&
           catalog->find(row.service, row.version).ok() &&  // what is gone stays in the metrics
           (request.name().empty() || request.name() == row.service) &&
           (request.version().empty() || request.version() == row.version);
  };
  const engine::EngineSnapshot snapshot = engine_.snapshot();
  for (const engine::ServiceStatistics& row : snapshot.services) {
    if (wanted(row)) fill_statistics(row, *response.add_model_stats());
  }
  if (!request.name().empty() && response.model_stats().empty()) {
    return catalog->find(request.name(), request.version()).status();
  }
  return absl::OkStatus();
}

}  // namespace fermata::serve
