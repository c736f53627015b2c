#pragma once

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "policy/batcher.h"
#include "policy/pool/pool_ranker.h"

namespace fermata::policy {

using MakeBatcher = std::unique_ptr<Batcher> (*)(KeyId key, KeyInfo info, DelayBound delay);

// A policy in its two parts, for a driver that carries offers, grants and
// answers between them itself, from thread to thread.
struct Parts {
  MakeBatcher make_batcher = nullptr;
  std::unique_ptr<PoolRanker> ranker;
};

// By the names of scheduler_names(); unknown: INVALID_ARGUMENT with the list.
absl::StatusOr<Parts> make_parts(std::string_view policy);

}  // namespace fermata::policy
