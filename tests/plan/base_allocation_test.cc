#include "plan/pipeline/base_allocation.h"

#include <gtest/gtest.h>

namespace fermata::plan {
namespace {

// Table 2 of IPA: a batch of one on 1, 4 and 8 cores.
const std::vector<LatencyByCores> kResnets = {
    {{1, TableLatency{{{1, 75}}}}, {4, TableLatency{{{1, 23}}}}, {8, TableLatency{{{1, 14}}}}},
    {{1, TableLatency{{{1, 135}}}}, {4, TableLatency{{{1, 57}}}}, {8, TableLatency{{{1, 32}}}}}};

std::vector<std::optional<uint32_t>> cores(double threshold_rps) {
  return base_allocation(kResnets, {1}, threshold_rps).cores;
}

using Cores = std::vector<std::optional<uint32_t>>;

TEST(BaseAllocation, TakesTheFewestCoresThatBearTheThreshold) {
  EXPECT_EQ(cores(5), (Cores{1, 1}));
  EXPECT_EQ(cores(10), (Cores{1, 4}));
  EXPECT_EQ(cores(20), (Cores{4, 8}));
  EXPECT_EQ(cores(40), (Cores{4, std::nullopt}));
}

TEST(BaseAllocation, KeepsTheSlaOfTheLargestBatch) {
  const LinearLatency slow{90, 10}, fast{10, 10};  // a batch of 8: 730 and 90
  const std::vector<LatencyByCores> variants = {{{1, slow}, {2, fast}}, {{1, fast}}};
  const BaseAllocation base = base_allocation(variants, {1, 8}, 1);
  EXPECT_EQ(base.cores, (Cores{2, 1}));  // 730 > 5 * (100 + 20) / 2
  EXPECT_DOUBLE_EQ(base.sla_ms, 5 * 20);
}

}  // namespace
}  // namespace fermata::plan
