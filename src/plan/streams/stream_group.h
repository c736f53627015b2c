#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "plan/streams/stream_tables.h"

namespace fermata::plan {

// Clients that share a worker, and what would become of them if one came or went.
class StreamGroup {
 public:
  struct Changed {
    double load = 0;
    uint32_t rank = 0;  // of the most accurate variant that serves them; ranks(): none does
    double room = 0;    // what some variant could carry besides; negative: none serves them
  };

  explicit StreamGroup(const StreamTables& tables);

  const std::vector<uint32_t>& members() const { return members_; }
  double load() const { return load_; }

  // Without `out` and with `in` (kNoGroup: nobody). Only rank, or only room, is filled. O(ranks).
  Changed rank_with(uint32_t out, uint32_t in) const;
  Changed room_with(uint32_t out, uint32_t in) const;
  void change(uint32_t out, uint32_t in);  // O(members * ranks)

 private:
  double load_with(uint32_t out, uint32_t in) const;
  double capacity_with(uint32_t rank, uint32_t out, uint32_t in) const {
    const double rest = holder_[rank] == out ? second_[rank] : least_[rank];
    return in == kNoGroup ? rest : std::min(rest, tables_->capacity_of(in)[rank]);
  }

  const StreamTables* tables_;
  std::vector<uint32_t> members_;
  double load_ = 0;
  // By rank: the least capacity of the members, whose it is, and the least of the others.
  std::vector<double> least_, second_;
  std::vector<uint32_t> holder_;
  double most_ = 0, most_without_ = 0;  // of least_; of second_: nobody carries more
};

}  // namespace fermata::plan
