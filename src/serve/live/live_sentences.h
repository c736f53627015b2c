#pragma once

#include <string>

#include "engine/engine.h"
#include "engine/services/adapter.h"
#include "policy/service.h"

namespace fermata::serve {

// What a planner decided, and what it saw, in a few plain sentences for people.
std::string sentence(const engine::AdapterDecision& decision);
std::string sentence(const engine::StreamDecision& decision);
std::string sentence(const engine::PlacementDecision& decision);
// Decides it again, as `fermata plan` does: O(a decision of the scheduler).
std::string sentence(const policy::Problem& problem);

}  // namespace fermata::serve
