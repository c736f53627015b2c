#pragma once

#include <memory>
#include <opencv2/core.hpp>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/time.h"

namespace fermata::client {

// Where frames come from. Not safe across threads.
class Source {
 public:
  virtual ~Source() = default;

  // The picture to be sent at `at`, counted from the first call; CV_8UC3, red first, valid until
  // the next call. Of a film the one that is shown then: those between are skipped. Of a folder
  // the next one, whenever that is. Of a camera or an address the newest one, as soon as there is
  // one that has not been given yet; blocks until then. None: there are no more.
  virtual absl::StatusOr<std::optional<cv::Mat>> next(Duration at) = 0;
  // Frames a second that it makes by itself; none: as many as are asked for.
  virtual std::optional<double> rate_rps() const { return std::nullopt; }
  // How many pictures there are, if that is known.
  virtual std::optional<uint64_t> count() const { return std::nullopt; }
};

// `name`: a folder of JPEG and PNG files (sent in the order of their names), one such file, a
// video file, a camera (/dev/video0), or an address (rtsp://...). `loop`: from the beginning
// again, without an end. INVALID_ARGUMENT says what it is that cannot be read; UNIMPLEMENTED
// where this build has no video.
absl::StatusOr<std::unique_ptr<Source>> open_source(const std::string& name, bool loop);

}  // namespace fermata::client
