#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "estimate/aggregation.h"
#include "estimate/output_table.h"

namespace fermata::estimate {

// Fills in the outputs of base models that were not run, from the recorded outputs of all of
// them on other queries (Schemble, section VII): the k recorded queries that are nearest, by
// Euclidean distance over the outputs that are there, give the weighted average of
// theirs. A record at distance d weighs 1/d; where some are at distance 0, these alone
// count, equally. Equally near ones count by row. Immutable: safe from several threads.
class Filling {
 public:
  static constexpr uint32_t kUsualK = 10;  // more do not help (Schemble, figure 20b)
  // As many are looked at for each query; of a longer history, evenly spaced ones are kept.
  static constexpr size_t kMostRecords = 8192;

  // check_tables() passes; k from 1.
  explicit Filling(const std::vector<OutputTable>& by_model, uint32_t k = kUsualK,
                   size_t most_records = kMostRecords);

  // All outputs: those that are there and, for the missing ones, the filled. `without`: a
  // row of the history that must not be a neighbour, as when its own outputs are hidden.
  // INVALID_ARGUMENT where none is there, or one has not the length of the records'.
  // O(records * width).
  absl::StatusOr<std::vector<std::vector<float>>> fill(QueryOutputs outputs,
                                                       std::optional<uint32_t> without = {}) const;

  uint32_t k() const { return k_; }

 private:
  struct Near {
    double squared = 0;
    uint32_t record = 0;
    bool operator<(const Near& other) const {
      return squared < other.squared || (squared == other.squared && record < other.record);
    }
  };
  std::vector<Near> nearest(QueryOutputs outputs, std::optional<uint32_t> without) const;

  uint32_t k_;
  std::vector<uint32_t> rows_;         // of the history, by record
  std::vector<OutputTable> by_model_;  // by record
};

}  // namespace fermata::estimate
