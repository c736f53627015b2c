#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/document.h"
#include "base/time.h"
#include "engine/engine.h"

namespace fermata::serve {

// What a planner last decided.
struct Decided {
  std::string id;  // among the last decisions: "streams", "pipeline:NAME"
  std::string_view kind;
  std::string service;  // of which; empty: of several
  std::optional<Time> at;
  std::optional<Duration> took;
  std::string summary;
  Json problem;              // what it saw
  std::string_view command;  // of `fermata`, that decides the same
};

// Of each planner that has decided anything; of pipelines each. Blocks for a moment.
std::vector<Decided> last_decisions(engine::Engine& engine);
// As the protocol has them, without their problems.
Json decisions_json(const std::vector<Decided>& decisions);

}  // namespace fermata::serve
