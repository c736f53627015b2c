#pragma once

#include <vector>

#include "base/document.h"
#include "engine/host/placement_log.h"
#include "engine/snapshot.h"

namespace fermata::serve {

// The body of GET /v2/fermata/placement (docs/protocol.md). Each decision's `problem` is a
// document of `fermata plan placement`, its `answer` what that command prints for it.
Json placement_json(const engine::EngineSnapshot& snapshot,
                    const std::vector<engine::PlacementDecision>& decisions);

}  // namespace fermata::serve
