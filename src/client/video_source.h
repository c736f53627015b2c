#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/source.h"

namespace fermata::client {

// A film, a camera or an address, through FFmpeg's libraries: any format that they read. What a
// camera or an address sends is decoded on a thread of its own, so that the newest picture is
// there when it is asked for. UNIMPLEMENTED, with what to install, in a build without them.
absl::StatusOr<std::unique_ptr<Source>> open_video(const std::string& name, bool loop);

}  // namespace fermata::client
