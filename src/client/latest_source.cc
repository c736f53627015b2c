#include "client/latest_source.h"

#ifdef FERMATA_VIDEO

#include <utility>

#include "base/status.h"

namespace fermata::client {

LatestSource::LatestSource(std::unique_ptr<VideoDecoder> decoder)
    : decoder_(std::move(decoder)), rate_rps_(decoder_->rate_rps()), thread_([this] { run(); }) {}

LatestSource::~LatestSource() {
  {
    const std::scoped_lock lock(mutex_);
    closing_ = true;
  }
  decoder_->stop();
  thread_.join();
}

// Empty: there are no more.
absl::StatusOr<cv::Mat> LatestSource::decode() {
  ASSIGN_OR_RETURN(const auto frame, decoder_->next());
  if (!frame) return cv::Mat();
  return decoder_->picture();
}

void LatestSource::run() {
  for (;;) {
    const auto picture = decode();
    const std::scoped_lock lock(mutex_);
    over_ = closing_ || !picture.ok() || picture->empty();
    fresh_ = fresh_ || !over_;
    if (over_) {
      status_ = picture.status();
    } else {
      picture->copyTo(newest_);
    }
    changed_.notify_all();
    if (over_) return;
  }
}

absl::StatusOr<std::optional<cv::Mat>> LatestSource::next(Duration) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return fresh_ || over_; });
  if (!std::exchange(fresh_, false)) {
    if (!status_.ok()) return status_;
    return std::optional<cv::Mat>();
  }
  std::swap(newest_, given_);
  return given_;
}

}  // namespace fermata::client

#endif
