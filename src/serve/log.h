#pragma once

#include <string>

namespace fermata::serve {

// From now on spdlog writes one JSON object a line to standard error, with the
// members time (UTC), level and message. `level`: a name that spdlog knows. Where nobody takes
// the log, lines are dropped, so that logging never blocks.
void log_as_json(const std::string& level);

}  // namespace fermata::serve
