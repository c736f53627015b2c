#include "client/video_source.h"

#include "base/status.h"

#ifndef FERMATA_VIDEO

namespace fermata::client {

absl::StatusOr<std::unique_ptr<Source>> open_video(const std::string& name, bool) {
  return unimplemented(
      "{} wants a decoder for video, which this build has not: run scripts/deps.sh video (or "
      "install libavformat-dev, libavcodec-dev, libavdevice-dev and libswscale-dev), then build "
      "again",
      name);
}

}  // namespace fermata::client

#else

#include "client/latest_source.h"
#include "client/video_decoder.h"

namespace fermata::client {
namespace {

class Film final : public Source {
 public:
  Film(std::unique_ptr<VideoDecoder> decoder, bool loop)
      : decoder_(std::move(decoder)), loop_(loop) {}

  absl::StatusOr<std::optional<cv::Mat>> next(Duration at) override {
    while (!any_ || until_ <= at) {
      ASSIGN_OR_RETURN(std::optional<VideoDecoder::Frame> frame, decoder_->next());
      if (!frame) {
        if (!loop_ || !any_) return std::optional<cv::Mat>();
        RETURN_IF_ERROR(decoder_->rewind());
        base_ = at;
        any_ = false;
        continue;
      }
      any_ = true;
      until_ = base_ + frame->until;
    }
    return decoder_->picture();
  }
  std::optional<double> rate_rps() const override { return decoder_->rate_rps(); }

 private:
  const std::unique_ptr<VideoDecoder> decoder_;
  const bool loop_;
  bool any_ = false;  // a frame since the beginning
  Duration base_, until_;
};

bool is_live(const std::string& name) {
  return name.starts_with("/dev/video") || name.find("://") != std::string::npos;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Source>> open_video(const std::string& name, bool loop) {
  ASSIGN_OR_RETURN(std::unique_ptr<VideoDecoder> decoder, VideoDecoder::open(name));
  if (is_live(name)) return std::make_unique<LatestSource>(std::move(decoder));
  return std::make_unique<Film>(std::move(decoder), loop);
}

}  // namespace fermata::client

#endif
