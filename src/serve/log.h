#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace fermata::serve {

// From now on spdlog writes one JSON object a line to standard error, with the
// members time (UTC), level and message. `level`: a name that spdlog knows. Where nobody takes
// the log, lines are dropped, so that logging never blocks.
void log_as_json(const std::string& level);

// Who else is told of warnings and errors, on the thread that logs, and at once of the last that
// there were; null: nobody. It must not log itself. Nobody is being told any more when it returns.
using LogListener = std::function<void(std::string_view level, std::string_view text)>;
void tell_of_log(LogListener listener);

}  // namespace fermata::serve
