#include "engine/confine/processor_quota.h"

#include <gtest/gtest.h>

#include "engine/fixture.h"

namespace fermata::engine {
namespace {

TEST(ProcessorQuota, IsThatOfTheCgroupOfEitherVersion) {
  TemporaryFolder second;
  second.write("cpu.max", "150000 100000\n");
  second.write("cpu.stat", "usage_usec 5\nnr_throttled 3\nthrottled_usec 2500000\n");
  const ProcessorQuota two = processor_quota(second.path());
  EXPECT_EQ(two.cores, 1.5);
  EXPECT_EQ(two.throttled, 3u);
  EXPECT_EQ(two.throttled_s, 2.5);
  TemporaryFolder first;
  first.write("cpu/cpu.cfs_quota_us", "50000\n");
  first.write("cpu/cpu.cfs_period_us", "100000\n");
  first.write("cpu/cpu.stat", "nr_periods 9\nnr_throttled 1\nthrottled_time 1500000000\n");
  const ProcessorQuota one = processor_quota(first.path());
  EXPECT_EQ(one.cores, 0.5);
  EXPECT_EQ(one.throttled, 1u);
  EXPECT_EQ(one.throttled_s, 1.5);
}

TEST(ProcessorQuota, IsNoneWhereThereIsNone) {
  TemporaryFolder folder;
  EXPECT_FALSE(processor_quota(folder.path()).cores.has_value());
  folder.write("cpu.max", "max 100000\n");
  EXPECT_FALSE(processor_quota(folder.path()).cores.has_value());
  TemporaryFolder first;
  first.write("cpu/cpu.cfs_quota_us", "-1\n");
  first.write("cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_FALSE(processor_quota(first.path()).cores.has_value());
}

}  // namespace
}  // namespace fermata::engine
