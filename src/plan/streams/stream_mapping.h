#pragma once

#include <cstdint>
#include <vector>

#include "plan/streams/stream_tables.h"

namespace fermata::plan {

// Clients to given DNNs, the most accurate DNN first, each with the highest sum of rates that
// it can carry (Jellyfish, Algorithm 1). Value and weight of a client are both its rate, so a
// row of the dynamic program is the set of sums that can be had, kept as bits.
class StreamMapper {
 public:
  explicit StreamMapper(const StreamTables& tables);

  // `ranks`, one for each worker, ascending: client to worker. Workers before the first one whose
  // rank differs from the last call's keep their clients.
  const StreamGroups& map(const std::vector<uint32_t>& ranks);
  // The work so far, what was kept included: words of bits, workers * clients * throughput / (64 h)
  // a mapping.
  uint64_t steps() const { return steps_; }

 private:
  static constexpr uint32_t kMostColumns = 1023, kBits = 64;

  // FindOptimalClients; the answer stands in chosen_.
  void find_clients(uint32_t rank);
  void add_row(size_t row, uint32_t rate, uint32_t columns);
  uint32_t highest_sum(size_t row) const;
  bool reached(size_t row, uint32_t column) const {
    return sums_[row * words_ + column / kBits] >> column % kBits & 1;
  }

  double step_ = 1;              // h, requests a second
  std::vector<uint32_t> units_;  // by client: its rate in steps
  // By rank: clients that it can serve, by budget, and the last column of each.
  struct Row {
    uint32_t client, columns;
  };
  std::vector<std::vector<Row>> by_budget_;
  StreamGroups groups_;
  std::vector<uint32_t> mapped_;           // the last ranks
  std::vector<uint64_t> steps_by_worker_;  // that they took
  uint32_t words_ = 1;                     // of a row
  std::vector<uint64_t> sums_;
  std::vector<uint32_t> rows_, chosen_;
  uint64_t steps_ = 0;
};

}  // namespace fermata::plan
