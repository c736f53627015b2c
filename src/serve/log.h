#pragma once

#include <functional>
#include <string>

#include "base/time.h"

namespace fermata::serve {

// From now on spdlog writes one JSON object a line to standard error, with the
// members time (UTC), level and message. `level`: a name that spdlog knows. Where nobody takes
// the log, lines are dropped, so that logging never blocks.
void log_as_json(const std::string& level);

// A warning or error, and when it was logged, by the monotonic clock.
struct LogLine {
  Time at;
  std::string level, text;
};
// Who else is told of warnings and errors, on the thread that logs, and at once of the last that
// there were; null: nobody. It must not log itself. Nobody is being told any more when it returns.
using LogListener = std::function<void(const LogLine& line)>;
void tell_of_log(LogListener listener);

}  // namespace fermata::serve
