#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/variants/group_tables.h"

namespace fermata::plan {

// What serving a whole group with a variant takes and brings, for the policies that
// decide by groups. Prepared in O(requests * variants * worker types).
class GroupRuns {
 public:
  void prepare(const GroupTables& tables);

  // Of all the group's batches on a worker of this type, without loading.
  Duration length(uint32_t group, uint32_t variant, uint32_t type) const {
    return runs_[index(group, variant, type)].length;
  }
  // Sum over the group's requests where the first batch starts to run at `start`. A batch that
  // is all on time or all past its use costs O(1), another one O(its requests).
  double utility(uint32_t group, uint32_t variant, uint32_t type, Time start) const;
  // The same for the short circuit; meaningless where the group may not take it.
  double short_circuit_utility(uint32_t group) const { return short_circuit_[group]; }

 private:
  struct Batch {
    uint32_t first, count;  // of the tables' order
    Duration length;
    Time on_time_until, worthless_after;
    double on_time;  // utility
  };
  struct Run {
    uint32_t first = 0, count = 0;  // of batches_
    Duration length;
  };

  size_t index(uint32_t group, uint32_t variant, uint32_t type) const {
    return (size_t{group} * most_variants_ + variant) * types_ + type;
  }
  Run prepare_run(const RequestGroup& group, uint32_t variant, const LatencyTable& latency);
  Batch prepare_batch(uint32_t first, uint32_t count, uint32_t variant) const;

  const GroupTables* tables_ = nullptr;
  size_t most_variants_ = 0, types_ = 1;
  std::vector<Run> runs_;
  std::vector<Batch> batches_;
  std::vector<double> short_circuit_;
};

}  // namespace fermata::plan
