#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/document.h"
#include "engine/catalog.h"
#include "engine/options.h"
#include "engine/snapshot.h"
#include "tune/measured.h"
#include "tune/recording.h"

namespace fermata::tune {

// What a server was like while it was recorded.
struct Server {
  const engine::EngineOptions& options;
  const engine::Catalog& catalog;
  const std::vector<engine::WorkerStatistics>& workers;
};

// A scenario of `fermata simulate` (docs/simulate.md) whose arrivals are those of the recording,
// with profiles as measured, and under `recorded` what happened to the requests that it measures.
// What it cannot replay is named there with the reason.
Json scenario_document(const Recording& recording, const Server& server);

}  // namespace fermata::tune
