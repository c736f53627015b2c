#include "model/latency_by_type.h"

#include <algorithm>

#include "base/check.h"
#include "base/status.h"

namespace fermata {

LatencyByType::LatencyByType(std::vector<Table> by_type) : tables_(std::move(by_type)) {
  FERMATA_CHECK(!tables_.empty());
  slowest_ = tables_[0];
  if (alike()) return;
  uint32_t max_batch = slowest_->max_batch();
  for (const Table& table : tables_) max_batch = std::min(max_batch, table->max_batch());
  TableLatency points;
  uint64_t version = 0;
  for (const Table& table : tables_) {
    for (uint32_t b = 1; b <= max_batch; ++b) {
      double& ms = points.points_ms[b];
      ms = std::max(ms, (*table)(b).millis());
    }
    version = std::max(version, table->version());
  }
  auto slowest = LatencyTable::make(points, max_batch, version);
  FERMATA_CHECK(slowest.ok());
  slowest_ = *std::move(slowest);
}

absl::StatusOr<LatencyByType> LatencyByType::make(std::span<const LatencyModel> by_type,
                                                  uint32_t max_batch) {
  std::vector<Table> tables;
  for (const LatencyModel& model : by_type) {
    ASSIGN_OR_RETURN(tables.emplace_back(), LatencyTable::make(model, max_batch));
  }
  return LatencyByType(std::move(tables));
}

Duration LatencyByType::fastest(uint32_t items) const {
  Duration least = Duration::infinite();
  for (const Table& table : tables_) least = std::min(least, (*table)(items));
  return least;
}

LatencyByType LatencyByType::with(uint32_t type, Table table) const {
  if (alike()) return {std::move(table)};
  std::vector<Table> tables = tables_;
  tables[type] = std::move(table);
  return LatencyByType(std::move(tables));
}

}  // namespace fermata
