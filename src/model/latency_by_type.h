#pragma once

#include <memory>
#include <span>
#include <vector>

#include "model/latency.h"

namespace fermata {

// The latencies of one model on workers of several types (SneakPeek 7.1), as immutable snapshots:
// of every type of worker one, or the same for all. Cheap to copy.
class LatencyByType {
 public:
  using Table = std::shared_ptr<const LatencyTable>;

  LatencyByType() = default;  // of nothing
  // The same on all workers.
  LatencyByType(Table all) : slowest_(all), tables_{std::move(all)} {}  // NOLINT: stands for them
  // At least one. O(types * max_batch).
  explicit LatencyByType(std::vector<Table> by_type);

  // Of what a document says, one or by type; fails as LatencyTable::make.
  static absl::StatusOr<LatencyByType> make(std::span<const LatencyModel> by_type,
                                            uint32_t max_batch);

  // Whether one table stands for all types.
  bool alike() const { return tables_.size() == 1; }
  const LatencyTable& on(uint32_t type) const { return *table(type); }
  const Table& table(uint32_t type) const { return tables_[alike() ? 0 : type]; }
  const std::vector<Table>& tables() const { return tables_; }
  // The longest of each batch size, up to the least max_batch: what holds wherever it runs.
  const Table& slowest() const { return slowest_; }
  // The shortest of a batch size.
  Duration fastest(uint32_t items) const;
  // With another table for one type; for all, where all are alike.
  LatencyByType with(uint32_t type, Table table) const;

 private:
  Table slowest_;
  std::vector<Table> tables_;
};

}  // namespace fermata
