#pragma once

#include <string>

#include "load/run.h"
#include "load/spec.h"

namespace fermata::load {

// The result as one JSON object; docs/cli.md names its fields. Rates are per
// second of the counted window; what cannot be known is null.
std::string report_json(const LoadSpec& spec, const LoadResult& result);

// The same for people: a table with a row for each service and one for all,
// then what failed, and whether the generator itself kept up.
std::string report_table(const LoadSpec& spec, const LoadResult& result);

}  // namespace fermata::load
