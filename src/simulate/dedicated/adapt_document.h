#pragma once

#include <string>

#include "base/document.h"
#include "simulate/dedicated/dedicated.h"

namespace fermata::simulate {

enum class ForecastKind : uint8_t { kReactive, kMovingMaximum, kSquareRoot, kPerfect, kModel };

struct AdaptTask {
  DedicatedOptions options;
  ForecastKind forecast = ForecastKind::kReactive;
  double quantile = 0.5;  // of the square root's
  std::string model;      // file of the network
};

// `fermata adapt`: docs/schemas/adapt.schema.json. Reads the trace that the document names: blocks.
AdaptTask read_adapt(Reader root);

// All kinds but the network's.
LoadForecast make_forecast(const AdaptTask& task);

Json write_adapt(const AdaptTask& task, const DedicatedResult& result);

}  // namespace fermata::simulate
