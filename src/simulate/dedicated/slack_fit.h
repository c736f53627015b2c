#pragma once

#include <vector>

#include "plan/pipeline/pipeline_options.h"

namespace fermata::simulate {

// SuperServe's choice for one stage: latencies up to the largest are divided into equal buckets,
// and the head of the queue's slack says which is the last that it can afford; of that one the
// largest batch runs, and among those the most accurate variant (arXiv 2312.16733, section 4).
class SlackFit {
 public:
  // Options with their latency alone in `ms`; `scores` by variant. Only those count of which none
  // is as fast, as accurate and as large.
  SlackFit(std::vector<plan::StageOption> options, const std::vector<double>& scores);
  // The fastest where the slack allows none. O(log options).
  const plan::StageOption& choose(double slack_ms) const;

 private:
  static constexpr size_t kBuckets = 16;
  double width_ = 1;
  std::vector<plan::StageOption> by_bucket_;  // the choice when this is the last affordable
};

}  // namespace fermata::simulate
