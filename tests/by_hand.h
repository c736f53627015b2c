#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>

#include "base/time.h"
#include "model/latency.h"

namespace fermata {

inline Time at_ms(double ms) { return Time() + Duration::from_millis(ms); }

inline std::shared_ptr<const LatencyTable> linear(double alpha_ms, double beta_ms,
                                                  uint32_t max_batch = 64) {
  return *LatencyTable::make(LinearLatency{alpha_ms, beta_ms}, max_batch);
}

// How a test of a policy is named.
inline std::string test_name(const testing::TestParamInfo<std::string_view>& info) {
  std::string name(info.param);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

}  // namespace fermata
