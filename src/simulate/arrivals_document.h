#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/document.h"
#include "simulate/arrivals.h"

namespace fermata::simulate {

// The contract's arrival: "poisson", "uniform", or {"process": ...} with the
// "shape" of gamma or the "file" of a trace, which is read here. Blocks.
ArrivalProcess read_arrivals(Reader value);
// The same, or the requests of a recording.
ArrivalProcess read_scenario_arrivals(Reader value);

// Text with one count a line, the requests of one second each; blank lines at
// the end are ignored. At most a week. Errors name the line.
absl::StatusOr<TraceArrivals> parse_trace(std::string_view text);
absl::StatusOr<TraceArrivals> load_trace(const std::string& file);

}  // namespace fermata::simulate
