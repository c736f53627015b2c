#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "client/source.h"
#include "client/video_decoder.h"

namespace fermata::client {

// The newest picture of a decoder that cannot be made to wait: a camera, an address. A thread
// decodes all of them; those that nobody asked for in time are gone. Only in builds with
// FERMATA_VIDEO.
class LatestSource final : public Source {
 public:
  explicit LatestSource(std::unique_ptr<VideoDecoder> decoder);
  ~LatestSource() override;

  absl::StatusOr<std::optional<cv::Mat>> next(Duration at) override;
  std::optional<double> rate_rps() const override { return rate_rps_; }

 private:
  void run();
  absl::StatusOr<cv::Mat> decode();

  const std::unique_ptr<VideoDecoder> decoder_;
  const std::optional<double> rate_rps_;
  std::mutex mutex_;  // of the following
  std::condition_variable changed_;
  cv::Mat newest_;
  bool fresh_ = false, over_ = false, closing_ = false;
  absl::Status status_;
  cv::Mat given_;
  std::thread thread_;
};

}  // namespace fermata::client
