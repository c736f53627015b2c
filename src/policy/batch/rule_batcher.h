#pragma once

#include <memory>

#include "policy/batcher.h"
#include "policy/rules.h"

namespace fermata::policy {

// The batcher of a single model under any policy of policy_rows(): it does what its rules say. What
// it measures (rate, growth, losses, sizes, and what grants tell of the pool) it measures under all
// rules, so that they may change while requests wait.
std::unique_ptr<Batcher> make_batcher(const Rules& rules, KeyId key, KeyInfo info,
                                      DelayBound delay);

}  // namespace fermata::policy
