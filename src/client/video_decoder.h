#pragma once

#include <atomic>
#include <memory>
#include <opencv2/core.hpp>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/time.h"

namespace fermata::client {

// Pictures out of anything that FFmpeg's libraries read. Not safe across threads, but for stop().
// Only in builds with FERMATA_VIDEO.
class VideoDecoder {
 public:
  struct Frame {
    Duration until;  // when the next one is shown, from the beginning on
  };
  // `name`: a file, /dev/videoN or an address (RTSP goes over TCP). Blocks; for an address at most
  // ten seconds. INVALID_ARGUMENT says what cannot be read.
  static absl::StatusOr<std::unique_ptr<VideoDecoder>> open(const std::string& name);
  ~VideoDecoder();

  // Decodes the next frame; none at the end. An address that is silent for ten seconds is an
  // error (UNAVAILABLE).
  absl::StatusOr<std::optional<Frame>> next();
  // The last frame as CV_8UC3, red first; valid until the next call of this.
  absl::StatusOr<cv::Mat> picture();
  absl::Status rewind();
  std::optional<double> rate_rps() const;
  // From any thread: a next() that blocks fails soon.
  void stop() { stopped_ = true; }

 private:
  struct Parts;  // FFmpeg's
  explicit VideoDecoder(std::string name);
  absl::Status start();
  absl::Status failed(const char* what, int code) const;
  static int interrupted(void* self);
  void watch();  // sets the time until which a call may block

  const std::string name_;
  std::unique_ptr<Parts> parts_;
  std::atomic<bool> stopped_{false};
  Time give_up_;
  cv::Mat picture_;
};

}  // namespace fermata::client
